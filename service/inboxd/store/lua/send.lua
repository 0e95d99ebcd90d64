#!lua
-- send: store one message once and queue it for its task.
--
-- Before   no message of this id, or the very same one
-- After    QUEUED; a repeated send changes nothing
-- Returns  new: {0, pending, recipient state, last heard, {superseded ids}, n, hops, created_at_ms, expires_at_ms or ''}
--          duplicate: {1, pending, recipient state, last heard, {}, the message}
-- Refuses  TASK_UNKNOWN MESSAGE_ID_REUSED HOPS_EXCEEDED MESSAGE_UNKNOWN SENDER_FORBIDDEN
-- Uses     clock whole admit enqueue pending view publish

local meta, events, tasks, due, task = unpack(KEYS)
local now_ms, task_id, message_id, sender, sender_task, priority, kind, doc, hash, chars, topic, ttl_ms, supersedes, reply_to, awaiting, thread_id, hops, create, hops_max, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

local spec = {
  task_id = task_id, message_id = message_id, sender = sender, sender_task = sender_task, priority = priority, kind = kind,
  doc = doc, hash = hash, chars = chars, topic = topic, ttl_ms = ttl_ms, supersedes = supersedes, reply_to = reply_to,
  awaiting = awaiting, thread_id = thread_id, hops = hops, create = create,
}
local refusal, duplicate = admit(spec)
if refusal then
  return redis.error_reply(refusal)
end
if duplicate then
  local state = redis.call('HMGET', task, 'state', 'last_heard_ms')
  return {1, pending(task_id), state[1], state[2], {}, view(message_id)}
end
enqueue(spec)
publish()
local state, heard = spec.recipient[2], spec.recipient[3]
if sender_task == task_id then
  state, heard = 'active', whole(now)
end
local expires_at_ms = ttl_ms ~= '' and whole(now + tonumber(ttl_ms)) or ''
return {0, spec.pending, state or 'queued', heard, spec.superseded, spec.n, spec.hops, whole(now), expires_at_ms}
