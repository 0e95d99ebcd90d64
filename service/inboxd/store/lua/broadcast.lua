#!lua
-- broadcast: one message to many tasks, each with an id of its own, all or none.
--
-- Before   no broadcast of this id, or the very same one
-- After    QUEUED in each inbox; a repeat reaches whom the first reached, even if tasks have come since
-- Returns  {duplicate, {pending, recipient state, last heard, message} of each}
-- Refuses  TASK_UNKNOWN MESSAGE_ID_REUSED HOPS_EXCEEDED
-- Uses     clock admit enqueue pending view publish

local meta, events, tasks, due, cast = unpack(KEYS)
local now_ms, copies, tail, sender, sender_task, priority, kind, hash, chars, topic, ttl_ms, reply_to, awaiting, thread_id, hops, create, hops_max, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

local function answer(duplicate, reached)
  local rows = {}
  for i, copy in ipairs(reached) do
    local state = redis.call('HMGET', key('task', copy.task_id), 'state', 'last_heard_ms')
    rows[i] = {pending(copy.task_id), state[1], state[2], view(copy.message_id)}
  end
  return {duplicate, rows}
end

local record = redis.call('GET', cast)
if record then
  local known = cjson.decode(record)
  if known.hash ~= hash then
    return redis.error_reply('MESSAGE_ID_REUSED A different broadcast was already sent with this id.')
  end
  return answer(1, known.reached)
end

local specs = {}
for i, copy in ipairs(cjson.decode(copies)) do
  local spec = {
    task_id = copy.task_id, message_id = copy.message_id, sender = sender, sender_task = sender_task, priority = priority,
    kind = kind, hash = hash, chars = chars,
    doc = '{"message_id":"' .. copy.message_id .. '","task":"' .. copy.task_id .. '",' .. tail, topic = topic, ttl_ms = ttl_ms, supersedes = '',
    reply_to = reply_to, awaiting = awaiting, thread_id = thread_id, hops = hops, create = create,
  }
  local refusal, duplicate = admit(spec)
  if refusal then
    return redis.error_reply(refusal)
  end
  specs[i] = {spec = spec, duplicate = duplicate}
end
local reached = {}
for i, entry in ipairs(specs) do
  if not entry.duplicate then
    enqueue(entry.spec)
  end
  reached[i] = {task_id = entry.spec.task_id, message_id = entry.spec.message_id}
end
redis.call('SET', cast, cjson.encode({hash = hash, reached = reached}), 'PX', retention_ms)
publish()
return answer(0, reached)
