-- hear: a session of this task gave a sign of life. Written at most every `presence_every_ms`, unless something changed.
-- Returns false when there is no such task. `known` is what is asked here, where it has been read already.
-- Needs    tasks presence_every_ms
-- Uses     key clock whole emit set_due pending
local function hear(task_id, session, known)
  local task = key('task', task_id)
  known = known or redis.call('HMGET', task, 'state', 'last_heard_ms', 'session', 'waits_for_person', 'created_at_ms')
  if not known[5] then
    return false
  end
  local fresh = known[1] == 'active' and now - tonumber(known[2]) < tonumber(presence_every_ms)
  if fresh and (session == '' or known[3] == session) and not known[4] then
    return true
  end
  redis.call('HSET', task, 'state', 'active', 'last_heard_ms', whole(now))
  if session ~= '' then
    redis.call('HSET', task, 'session', session)
  end
  redis.call('HDEL', task, 'waits_for_person', 'terminated_at_ms')
  redis.call('ZADD', tasks, whole(now), task_id)
  if known[1] ~= 'active' or known[4] then
    emit('task_state_changed', {task = task_id, state = 'active', session = session, pending = pending(task_id)})
  end
  set_due(task_id)
  return true
end
