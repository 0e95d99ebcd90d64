#!lua flags=no-writes
-- wait_reply: the first reply in a thread to an agent, behind a place in it. Looking changes nothing: waiting is done elsewhere.
--
-- Returns  {last event number, the message or {}, its number, whose mail it is}
-- Refuses  THREAD_UNKNOWN THREAD_FORBIDDEN THREAD_STATE MESSAGE_UNKNOWN
-- Uses     clock key thread thread_over is_party view
--
-- The place is an event number, a message, or neither: then the agent's own last word. What comes later is found however long nobody
-- looked, and again by whoever asks again from the same place. What was taken back is no reply.

local meta = unpack(KEYS)
local now_ms, thread_id, agent, sender, any, after_event, after_message, kinds, scan_max = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
if any ~= '1' and not is_party(t, agent) then
  return redis.error_reply('THREAD_FORBIDDEN ' .. agent .. ' has no part in the thread ' .. thread_id .. '.')
end
local after = after_event
if after_message ~= '' then
  local f = redis.call('HMGET', key('msg', after_message), 'thread_id', 'n')
  if f[1] ~= thread_id then
    return redis.error_reply('MESSAGE_UNKNOWN The message ' .. after_message .. ' is not of the thread ' .. thread_id .. '.')
  end
  if after == '' or tonumber(f[2]) > tonumber(after) then
    after = f[2]
  end
end
if after == '' then
  after = redis.call('HGET', t.key, 'said:' .. sender) or '0'
end
local seq = redis.call('HGET', meta, 'seq')
local place = after .. '-0'
repeat
  local rows = redis.call('XRANGE', key('thread_log', thread_id), '(' .. place, '+', 'COUNT', scan_max)
  for _, row in ipairs(rows) do
    local id, kind, by, to = row[2][2], row[2][4], row[2][6], row[2][8]
    place = row[1]
    if by ~= sender and (to == agent or to == '') and string.find(',' .. kinds .. ',', ',' .. kind .. ',', 1, true) then
      local state = redis.call('HGET', key('msg', id), 'state')
      if state and state ~= 'superseded' then
        return {seq, view(id), string.match(place, '^%d+'), to}
      end
    end
  end
until #rows < tonumber(scan_max)
if thread_over[t.status] then
  return redis.error_reply('THREAD_STATE The thread ' .. thread_id .. ' is ' .. t.status .. ': no reply will come.')
end
return {seq, {}, '', ''}
