-- reclaim: act on the deadlines of a task that have passed: holds that ran out go back, expired mail is dropped,
-- a silent task falls idle. At most `limit` of each. Returns true when more is left to do.
-- Uses     key message give_back drop emit set_due clock pending
local function reclaim(task_id, limit)
  local holds, ttls = key('holds', task_id), key('ttls', task_id)
  local over = redis.call('ZRANGEBYSCORE', holds, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(over) do
    local m = message(id)
    if m and m.state == 'in_flight' then
      give_back(m, 'hold_ran_out')
    else
      redis.call('ZREM', holds, id)
    end
  end
  local late = redis.call('ZRANGEBYSCORE', ttls, '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(late) do
    local m = message(id)
    if m and m.state == 'queued' then
      drop(m, 'expired', 'ttl')
    else
      redis.call('ZREM', ttls, id)
    end
  end
  local task = key('task', task_id)
  local heard = redis.call('HMGET', task, 'state', 'last_heard_ms')
  if heard[1] == 'active' and tonumber(heard[2]) + tonumber(idle_after_ms) <= now then
    redis.call('HSET', task, 'state', 'idle')
    emit('task_state_changed', {task = task_id, state = 'idle', pending = pending(task_id)})
  end
  set_due(task_id)
  return #over == tonumber(limit) or #late == tonumber(limit)
end
