#!lua flags=allow-oom
-- remove: take a task away, at most `limit` of its unsettled messages at a time.
--
-- Before   a task; with `force` it may still have mail that nobody got
-- After    that mail is EXPIRED, and once none is left, every key of the task is gone; delivered messages stay readable by id
-- Returns  messages dropped by this call, and 1 when the task is gone
-- Refuses  TASK_UNKNOWN TASK_NOT_EMPTY
-- Uses     clock key priorities message drop emit publish

local meta, events, tasks, due, task = unpack(KEYS)
local now_ms, task_id, force, limit, events_max, retention_ms = unpack(ARGV)

local counts = redis.call('HMGET', task, 'created_at_ms', 'held', 'dead', 'queued:urgent', 'queued:high', 'queued:normal', 'queued:low')
if not counts[1] then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end
local unsettled = 0
for i = 2, 7 do
  unsettled = unsettled + (tonumber(counts[i]) or 0)
end
if unsettled > 0 and force ~= '1' then
  return redis.error_reply('TASK_NOT_EMPTY ' .. task_id .. ' still has ' .. unsettled .. ' messages that nobody got.')
end
limit = tonumber(limit)
local ids = {}
local function gather(found)
  for _, id in ipairs(found) do
    if #ids < limit then
      ids[#ids + 1] = id
    end
  end
end
gather(redis.call('ZRANGE', key('holds', task_id), 0, limit - 1))
gather(redis.call('ZRANGE', key('dead', task_id), 0, limit - 1))
for _, priority in ipairs(priorities) do
  gather(redis.call('ZRANGE', key('returned', task_id, priority), 0, limit - 1))
  for _, entry in ipairs(redis.call('XRANGE', key('inbox', task_id, priority), '-', '+', 'COUNT', limit)) do
    gather({entry[2][2]})
  end
end
local dropped = 0
for _, id in ipairs(ids) do
  local m = message(id)
  if m and (m.state == 'queued' or m.state == 'in_flight' or m.state == 'dead') then
    drop(m, 'expired', 'task_removed')
    dropped = dropped + 1
  end
end
if #ids >= limit then
  publish()
  return {dropped, 0}
end
for _, peer in ipairs(redis.call('SMEMBERS', key('peers', task_id))) do
  redis.call('SREM', key('peers', peer), task_id)
end
for _, row in ipairs({'peers', 'awaits', 'topics', 'holds', 'ttls', 'dead', 'timeline'}) do
  redis.call('UNLINK', key(row, task_id))
end
for _, priority in ipairs(priorities) do
  redis.call('UNLINK', key('inbox', task_id, priority), key('returned', task_id, priority))
end
redis.call('DEL', task)
redis.call('ZREM', tasks, task_id)
redis.call('ZREM', due, task_id)
emit('task_removed', {task = task_id})
publish()
return {dropped, 1}
