-- announce: the event of a message's new state, with what a badge needs to know.
-- Uses     emit
local function announce(m, type, event)
  event = event or {}
  event.task = m.task
  event.message_id = m.id
  event.sender = m.sender
  event.kind = m.kind
  event.priority = m.priority
  event.thread_id = m.thread_id or nil
  return emit(type, event)
end
