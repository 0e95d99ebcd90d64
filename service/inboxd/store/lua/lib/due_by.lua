-- due_by: a task must be looked at by then at the latest. Cheaper than set_due, and enough on the hot path: a task that is looked at
-- too early, for a deadline that was met, gets its next one then.
-- Needs    due
-- Uses     key whole
local function due_by(task_id, at_ms)
  local task = key('task', task_id)
  local was = redis.call('HGET', task, 'due_ms')
  if not was or tonumber(was) > at_ms then
    redis.call('ZADD', due, whole(at_ms), task_id)
    redis.call('HSET', task, 'due_ms', whole(at_ms))
  end
end
