#!lua
-- open_thread: begin a thread with its first message.
--
-- Before   no message of this id, or the very same one
-- After    pending, assigned to `to`, whose mail the message is; without `to` in the pool, for anybody to claim. Who opened it has an
--          inbox, declared now if need be: the questions and the result of the thread are its mail
-- Returns  {duplicate, the thread, the message}
-- Refuses  TASK_UNKNOWN MESSAGE_ID_REUSED HOPS_EXCEEDED THREAD_UNKNOWN
-- Uses     clock key whole admit word declare_task say party place announce_thread view publish

local meta, events, tasks, due, thread = unpack(KEYS)
local now_ms, thread_id, message_id, to, sender, sender_task, subject, run_id, task_label, priority, kind, tail, hash, chars, reply_to, awaiting, hops, create, hops_max, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

local spec = word(to, reply_to)
spec.create = create
local refusal, duplicate = admit(spec)
if refusal then
  return redis.error_reply(refusal)
end
local there = redis.call('EXISTS', thread) == 1
if duplicate and not there then
  return redis.error_reply('THREAD_UNKNOWN The thread ' .. thread_id .. ' was over long ago and is gone.')
end
if duplicate then
  return {1, redis.call('HGETALL', thread), view(message_id)}
end
if there then
  -- Its first message is gone already and it will follow soon; a new one must not inherit anything of it.
  return redis.error_reply('MESSAGE_ID_REUSED There was a thread with the id ' .. thread_id .. ' before.')
end
if sender_task ~= '' then
  declare_task(sender_task)
end
redis.call('HSET', thread, 'status', 'pending', 'subject', subject, 'run_id', run_id, 'task_id', task_label, 'created_by', sender,
  'creator', sender_task, 'assigned_to', to, 'priority', priority, 'opening_id', message_id, 'messages', 0, 'fence', 0,
  'created_at_ms', whole(now), 'agents', '')
-- Its number, which its lists are sorted by, is that of the first event it causes.
local t = {
  id = thread_id, key = thread, status = 'pending', created_by = sender, creator = sender_task, assigned_to = to, priority = priority,
  agents = {}, holder = '', n = whole((redis.call('HGET', meta, 'seq') or 0) + 1),
}
redis.call('HSET', thread, 'n', t.n)
redis.call('ZADD', key('threads', 'pending'), place(t), thread_id)
join(t, sender_task)
join(t, to == '' and '*' or to)
say(t, spec, 'thread_opened', {subject = subject})
publish()
return {0, redis.call('HGETALL', thread), view(message_id)}
