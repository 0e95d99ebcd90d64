#!lua flags=allow-oom
-- sample: note how much mail waits in the whole namespace, once a minute, for the charts. Nothing is written where nothing waits.
--
-- Returns  how much waits, in the `limit` most recently active tasks
-- Uses     clock key whole pending

local meta, tasks = unpack(KEYS)
local now_ms, limit = unpack(ARGV)

local waiting = 0
for _, task_id in ipairs(redis.call('ZRANGE', tasks, 0, limit - 1, 'REV')) do
  waiting = waiting + pending(task_id)
end
if waiting > 0 then
  local stats = key('stats', whole(math.floor(now / 60000)))
  redis.call('HSETNX', stats, 'pending', waiting)
  redis.call('PEXPIRE', stats, 7200000)
end
return waiting
