#!lua flags=no-writes
-- timeline: a task's messages both ways, newest first, from `before` (a message number, exclusive) on. Looking consumes nothing.
--
-- Returns  {number to go on from or '', {messages}}
-- Refuses  TASK_UNKNOWN
-- Uses     key view
--
-- Looks at no more than `scan_max` rows, so a filter that fits little returns early with a number to go on from.

local meta, task, timeline = unpack(KEYS)
local task_id, before, limit, scan_max, states, senders, kinds, priority, direction, thread_id = unpack(ARGV)

if redis.call('HEXISTS', task, 'created_at_ms') == 0 then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end
local function listed(list, value)
  return list == '' or string.find(',' .. list .. ',', ',' .. (value or '') .. ',', 1, true) ~= nil
end
local from = before == '' and '+' or '(' .. before .. '-0'
local found, last = {}, ''
limit, scan_max = tonumber(limit), tonumber(scan_max)
local scanned = 0
while #found < limit and scanned < scan_max do
  local want = math.min(scan_max - scanned, 100)
  local rows = redis.call('XREVRANGE', timeline, from, '-', 'COUNT', want)
  for _, row in ipairs(rows) do
    scanned = scanned + 1
    local id = row[2][2]
    local n = string.match(row[1], '^%d+')
    from, last = '(' .. row[1], n
    local f = redis.call('HMGET', key('msg', id), 'state', 'sender', 'kind', 'priority', 'task', 'thread_id')
    local coming = f[5] == task_id
    if f[1] and listed(states, f[1]) and listed(senders, f[2]) and listed(kinds, f[3]) and listed(priority, f[4])
      and (thread_id == '' or f[6] == thread_id)
      and (direction == '' or (direction == 'in' and coming) or (direction == 'out' and f[2] == 'task:' .. task_id)
        or (direction == 'out' and task_id == 'user' and f[2] == 'user')) then
      found[#found + 1] = view(id)
      if #found == limit then
        break
      end
    end
  end
  if #rows < want then
    if #found < limit then
      last = ''
    end
    break
  end
end
return {last, found}
