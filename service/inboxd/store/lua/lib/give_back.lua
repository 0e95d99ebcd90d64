-- give_back: IN_FLIGHT or DELIVERED -> QUEUED in its old place, or DEAD when it was handed over too often.
-- `holder` stays: whoever had it last may still say that the model did get it, until somebody else takes it.
-- Needs    attempts_max
-- Uses     key leave turn announce
local function give_back(m, reason)
  leave(m)
  local task = key('task', m.task)
  redis.call('PERSIST', m.key)
  if m.attempts >= tonumber(attempts_max) then
    turn(m, 'dead', reason, 'returned', '1', 'reason', reason)
    redis.call('ZADD', key('dead', m.task), m.n, m.id)
    redis.call('HINCRBY', task, 'dead', 1)
    announce(m, 'task_message_dead', {reason = reason})
    return
  end
  turn(m, 'queued', reason, 'returned', '1')
  redis.call('ZADD', key('returned', m.task, m.priority), m.n, m.id)
  redis.call('HINCRBY', task, 'queued:' .. m.priority, 1)
  redis.call('HINCRBY', task, 'returned:' .. m.priority, 1)
  if m.expires_at_ms then
    redis.call('ZADD', key('ttls', m.task), m.expires_at_ms, m.id)
  end
  if m.topic ~= '' then
    -- It speaks for its topic again, unless a newer message does by now.
    redis.call('HSETNX', key('topics', m.task), m.sender .. ' ' .. m.topic, m.id)
  end
  announce(m, 'task_message_returned', {reason = reason})
end
