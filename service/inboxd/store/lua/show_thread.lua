#!lua flags=no-writes
-- show_thread: a thread with its messages, oldest first, from `after` (a message number, exclusive) on, or the newest of those.
-- Looking changes nothing.
--
-- Returns  {now, last event number, the thread, {messages}, number of the last one looked at if there are more, or ''}
-- Refuses  THREAD_UNKNOWN THREAD_FORBIDDEN
-- Uses     clock key whole thread may_see view
--
-- A page ends at `limit` messages or past `chars_max` of text.

local meta = unpack(KEYS)
local now_ms, thread_id, agent, any, after, newest, limit, chars_max = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
if any ~= '1' and not may_see(t, agent) then
  return redis.error_reply('THREAD_FORBIDDEN ' .. agent .. ' has no part in the thread ' .. thread_id .. '.')
end
local found, chars, last, more = {}, 0, '', ''
local log, first = key('thread_log', thread_id), '(' .. after .. '-0'
local rows
if newest == '1' then
  rows = redis.call('XREVRANGE', log, '+', first, 'COUNT', limit + 1)
else
  rows = redis.call('XRANGE', log, first, '+', 'COUNT', limit + 1)
end
for i, row in ipairs(rows) do
  if i > tonumber(limit) or chars > tonumber(chars_max) then
    more = last
    break
  end
  last = string.match(row[1], '^%d+')
  local id = row[2][2]
  local size = redis.call('HGET', key('msg', id), 'chars')
  if size then
    chars = chars + tonumber(size)
    table.insert(found, newest == '1' and 1 or #found + 1, view(id))
  end
end
return {whole(now), redis.call('HGET', meta, 'seq') or '0', redis.call('HGETALL', t.key), found, more}
