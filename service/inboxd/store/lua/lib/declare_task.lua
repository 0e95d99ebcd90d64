-- declare_task: bring a task into being, in state queued. Returns true when it was new.
-- Needs    tasks
-- Uses     key clock whole emit
local function declare_task(task_id)
  local task = key('task', task_id)
  if redis.call('HSETNX', task, 'created_at_ms', whole(now)) == 0 then
    return false
  end
  redis.call('HSET', task, 'state', 'queued', 'title', '')
  redis.call('ZADD', tasks, whole(now), task_id)
  emit('task_declared', {task = task_id, state = 'queued', pending = 0})
  return true
end
