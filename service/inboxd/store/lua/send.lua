#!lua
-- send: store one message once and queue it for its task.
--
-- Before   no message of this id, or the very same one
-- After    QUEUED; a repeated send changes nothing
-- Returns  {duplicate, pending, recipient state, last heard, {superseded ids}, the message}
-- Refuses  TASK_UNKNOWN MESSAGE_ID_REUSED HOPS_EXCEEDED MESSAGE_UNKNOWN SENDER_FORBIDDEN
-- Uses     clock admit enqueue pending hear view publish

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
local superseded = {}
if not duplicate then
  superseded = enqueue(spec)
  if sender_task ~= '' and redis.call('HEXISTS', key('task', sender_task), 'created_at_ms') == 1 then
    hear(sender_task, '')
  end
  publish()
end
local state = redis.call('HMGET', task, 'state', 'last_heard_ms')
return {duplicate and 1 or 0, pending(task_id), state[1], state[2], superseded, view(message_id)}
