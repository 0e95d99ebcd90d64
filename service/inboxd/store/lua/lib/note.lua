-- note: store a message that is nobody's mail, only part of its thread. Its number is given.
-- Uses     key clock whole hear emit
local function note(spec)
  local name = key('msg', spec.message_id)
  redis.call('HSET', name, 'doc', spec.doc, 'hash', spec.hash, 'n', spec.n, 'task', '', 'sender', spec.sender, 'priority', spec.priority,
    'kind', spec.kind, 'chars', spec.chars, 'state', 'noted', 'fence', 0, 'attempts', 0, 'hops', spec.hops, 'thread_id', spec.thread_id,
    'created_at_ms', whole(now), 'history', whole(now) .. ' noted ' .. spec.sender .. '\n')
  if spec.sender_task ~= '' and hear(spec.sender_task, '') then
    redis.call('XADD', key('timeline', spec.sender_task), spec.n .. '-0', 'message_id', spec.message_id)
    if spec.awaiting == '1' then
      local awaits = key('awaits', spec.sender_task)
      redis.call('HSET', name, 'awaiting', '1')
      redis.call('SADD', awaits, spec.message_id)
      emit('task_waiting_changed', {task = spec.sender_task, message_id = spec.message_id, waiting = redis.call('SCARD', awaits)})
    end
  end
end
