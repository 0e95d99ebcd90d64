#!lua flags=allow-oom
-- presence: a session of a task started, lives, waits for its person, ended; or the task is over.
--
-- Before   any state
-- After    heartbeat, start: active · waiting: active, waiting for a person · end: idle, what the session held goes back · terminated
-- Returns  {state, held messages given back}
-- Refuses  TASK_UNKNOWN
-- Uses     clock key whole message give_back hear emit pending set_due publish priorities

local meta, events, tasks, due, task, holds = unpack(KEYS)
local now_ms, task_id, session, sign, detail, machine, host, attempts_max, events_max, idle_after_ms, presence_every_ms = unpack(ARGV)

local known = redis.call('HMGET', task, 'created_at_ms', 'state', 'session')
if not known[1] then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end

local function become(state)
  if known[2] ~= state then
    redis.call('HSET', task, 'state', state)
    emit('task_state_changed', {task = task_id, state = state, session = session, pending = pending(task_id)})
  end
end

local given_back = 0
if sign == 'heartbeat' or sign == 'start' or sign == 'waiting' then
  hear(task_id, session)
  if machine ~= '' then
    redis.call('HSET', task, 'machine', machine)
  end
  if host ~= '' then
    redis.call('HSET', task, 'host', host)
  end
  if sign == 'start' then
    redis.call('HSET', task, 'started_at_ms', whole(now))
    emit('task_session_started', {task = task_id, session = session, machine = machine, host = host, pending = pending(task_id)})
  elseif sign == 'waiting' then
    redis.call('HSET', task, 'waits_for_person', detail)
    emit('task_state_changed', {task = task_id, state = 'waiting', session = session, pending = pending(task_id)})
  end
else
  for _, id in ipairs(redis.call('ZRANGE', holds, 0, -1)) do
    local m = message(id)
    if m and m.state == 'in_flight' and (sign == 'terminated' or m.holder == session) then
      give_back(m, 'session_ended')
      redis.call('HSET', m.key, 'fence', m.fence + 1)
      given_back = given_back + 1
    end
  end
  for _, priority in ipairs(priorities) do
    local inbox = key('inbox', task_id, priority)
    if session ~= '' and redis.call('EXISTS', inbox) == 1 and sign == 'end' then
      redis.call('XGROUP', 'DELCONSUMER', inbox, 'readers', session)
    end
  end
  if sign == 'terminated' or known[3] == session then
    redis.call('HDEL', task, 'waits_for_person')
  end
  if sign == 'terminated' then
    redis.call('HSET', task, 'terminated_at_ms', whole(now))
    become('terminated')
  elseif known[3] == session and known[2] ~= 'terminated' then
    become('idle')
    emit('task_session_ended', {task = task_id, session = session, pending = pending(task_id)})
  end
  set_due(task_id)
end
publish()
return {redis.call('HGET', task, 'state'), given_back}
