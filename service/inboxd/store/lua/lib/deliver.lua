-- deliver: IN_FLIGHT (or back in the queue, still unclaimed) -> DELIVERED to `session`.
-- Needs    retention_ms
-- Uses     leave turn announce whole clock
local function deliver(m, session)
  leave(m)
  turn(m, 'delivered', session, 'delivered_at_ms', whole(now), 'delivered_to', session, 'holder', '')
  redis.call('PEXPIRE', m.key, retention_ms)
  announce(m, 'task_message_delivered', {session = session})
end
