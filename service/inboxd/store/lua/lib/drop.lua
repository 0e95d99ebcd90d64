-- drop: QUEUED -> EXPIRED or SUPERSEDED. Nobody got it and nobody will; it stays readable for a while.
-- A sender that waited for its answer stops waiting.
-- Uses     leave turn announce stop_waiting let_go
local function drop(m, state, reason)
  leave(m)
  turn(m, state, reason, 'reason', reason)
  let_go(m)
  announce(m, 'task_message_' .. state, {reason = reason})
  local sender_task = m.sender == 'user' and 'user' or string.match(m.sender, '^task:(.+)$')
  if m.awaiting and sender_task then
    stop_waiting(sender_task, m.id)
  end
end
