-- stop_waiting: a task no longer waits for an answer to this message of its own.
-- Uses     key emit
local function stop_waiting(task_id, message_id)
  local awaits = key('awaits', task_id)
  if redis.call('SREM', awaits, message_id) == 1 then
    emit('task_waiting_changed', {task = task_id, message_id = message_id, waiting = redis.call('SCARD', awaits)})
  end
end
