-- enqueue: store an admitted message and put it into its inbox. Fills in `n`, `pending` and `superseded`.
-- The number of its event is the message's own: streams, timeline and log sort alike. This is the hot path: what admit has read
-- is not read again.
-- Uses     key clock whole message drop emit declare_task set_due stop_waiting hear
local function enqueue(spec)
  if not spec.recipient[1] then
    declare_task(spec.task_id)
  end
  local superseded = {}
  local topic_field = spec.sender .. ' ' .. spec.topic
  local topics = key('topics', spec.task_id)
  local older = {spec.supersedes}
  if spec.topic ~= '' then
    older[2] = redis.call('HGET', topics, topic_field) or ''
  end
  for _, id in ipairs(older) do
    local m = id ~= '' and message(id)
    if m and m.state == 'queued' then
      drop(m, 'superseded', spec.message_id)
      superseded[#superseded + 1] = id
    end
  end

  local task = key('task', spec.task_id)
  spec.pending = 1 - #superseded
  for i = 5, 8 do
    spec.pending = spec.pending + (tonumber(spec.recipient[i]) or 0)
  end
  redis.call('HINCRBY', task, 'queued:' .. spec.priority, 1)
  local n = whole(emit('task_message_queued', {
    task = spec.task_id, message_id = spec.message_id, sender = spec.sender, kind = spec.kind, priority = spec.priority,
    pending = spec.pending, thread_id = spec.thread_id ~= '' and spec.thread_id or nil,
  }))
  local name = key('msg', spec.message_id)
  redis.call('HSET', name, 'doc', spec.doc, 'hash', spec.hash, 'n', n, 'task', spec.task_id, 'sender', spec.sender,
    'priority', spec.priority, 'kind', spec.kind, 'chars', spec.chars, 'state', 'queued', 'fence', 0, 'attempts', 0,
    'hops', spec.hops, 'created_at_ms', whole(now), 'history', whole(now) .. ' queued ' .. spec.sender .. '\n')

  local inbox = key('inbox', spec.task_id, spec.priority)
  if not spec.recipient[4] then
    redis.call('HSET', task, 'group:' .. spec.priority, 1)
    redis.call('XGROUP', 'CREATE', inbox, 'readers', '0', 'MKSTREAM')
  end
  redis.call('XADD', inbox, n .. '-0', 'message_id', spec.message_id, 'chars', spec.chars)
  redis.call('XADD', key('timeline', spec.task_id), n .. '-0', 'message_id', spec.message_id)
  redis.call('ZADD', tasks, whole(now), spec.task_id)

  local from_task = spec.sender_task ~= '' and hear(spec.sender_task, '')
  if from_task and spec.sender_task ~= spec.task_id then
    redis.call('XADD', key('timeline', spec.sender_task), n .. '-0', 'message_id', spec.message_id)
  end
  if spec.topic ~= '' then
    redis.call('HSET', topics, topic_field, spec.message_id)
    redis.call('HSET', name, 'topic', spec.topic)
  end
  if spec.thread_id ~= '' then
    redis.call('HSET', name, 'thread_id', spec.thread_id)
  end
  if spec.ttl_ms ~= '' then
    local expires_at_ms = whole(now + tonumber(spec.ttl_ms))
    redis.call('HSET', name, 'expires_at_ms', expires_at_ms)
    redis.call('ZADD', key('ttls', spec.task_id), expires_at_ms, spec.message_id)
    set_due(spec.task_id)
  end
  if spec.reply_to ~= '' then
    stop_waiting(spec.task_id, spec.reply_to)
  end
  if spec.awaiting == '1' and from_task then
    local awaits = key('awaits', spec.sender_task)
    redis.call('HSET', name, 'awaiting', '1')
    redis.call('SADD', awaits, spec.message_id)
    emit('task_waiting_changed', {task = spec.sender_task, message_id = spec.message_id, waiting = redis.call('SCARD', awaits)})
  end
  spec.n, spec.superseded = n, superseded
end
