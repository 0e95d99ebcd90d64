-- announce_thread: the event of something that happened to a thread. Returns its number.
-- Uses     emit pending whole clock
local function announce_thread(t, type, event)
  event = event or {}
  event.thread_id = t.id
  event.status = t.status
  event.created_by = t.created_by
  event.agents = #t.agents > 0 and t.agents or nil
  event.priority = t.priority
  if t.assigned_to ~= '' then
    event.assigned_to = t.assigned_to
    event.task = t.assigned_to
    event.pending = pending(t.assigned_to)
  end
  if t.holder ~= '' then
    event.agent = t.holder
  end
  redis.call('HSET', t.key, 'updated_at_ms', whole(now))
  return emit(type, event)
end
