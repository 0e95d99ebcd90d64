-- deliver: IN_FLIGHT (or back in the queue, still unclaimed) -> DELIVERED to `session`.
-- Uses     leave turn announce whole clock let_go tally
local function deliver(m, session)
  leave(m)
  turn(m, 'delivered', session, 'delivered_at_ms', whole(now), 'delivered_to', session, 'holder', '')
  let_go(m)
  tally(m)
  announce(m, 'task_message_delivered', {session = session})
end
