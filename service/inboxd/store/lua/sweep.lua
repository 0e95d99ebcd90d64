#!lua flags=allow-oom
-- sweep: act on one task's deadlines that have passed.
--
-- Before   IN_FLIGHT past its hold; QUEUED past its ttl; active but silent
-- After    QUEUED or DEAD; EXPIRED; idle
-- Returns  1 when more is left to do, else 0
-- Uses     clock key reclaim publish

local meta, events, due, task = unpack(KEYS)
local now_ms, task_id, limit, attempts_max, events_max, retention_ms, idle_after_ms = unpack(ARGV)

if redis.call('HEXISTS', task, 'created_at_ms') == 0 then
  redis.call('ZREM', due, task_id)
  return 0
end
local more = reclaim(task_id, limit)
publish()
return more and 1 or 0
