-- say: store an admitted message of a thread, as mail where it is for somebody, and tell of it by an event of this type.
-- Its number is that of its own event: of `task_message_queued` as mail, else of the thread's.
-- Uses     key clock whole enqueue note party announce_thread
local function say(t, spec, type, event)
  event = event or {}
  event.message_id = spec.message_id
  event.kind = spec.kind
  event.sender = spec.sender
  if spec.task_id ~= '' then
    join(t, spec.task_id)
    enqueue(spec)
    announce_thread(t, type, event)
  else
    spec.n = whole(announce_thread(t, type, event))
    note(spec)
  end
  redis.call('XADD', key('thread_log', t.id), spec.n .. '-0', 'message_id', spec.message_id, 'kind', spec.kind, 'sender', spec.sender, 'to', spec.task_id)
  if t.last_sender and t.last_sender ~= spec.sender then
    -- The newest word of somebody else, for whoever spoke last: what `unread` is made of.
    redis.call('HSET', t.key, 'prev_n', whole(t.last_n))
  end
  redis.call('HSET', t.key, 'latest_message_id', spec.message_id, 'last_n', spec.n, 'last_sender', spec.sender, 'said:' .. spec.sender, spec.n)
  redis.call('HINCRBY', t.key, 'messages', 1)
end
