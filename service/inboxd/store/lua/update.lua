#!lua
-- update: the worker says how it goes (in_progress), what it needs (blocked), or how it ended (done, failed).
--
-- Before   claimed, in_progress or blocked, under a live lease of this agent with this fencing token
-- After    the new status; a question or a result is mail to whoever opened the thread; at the end the lease is given up
-- Returns  {duplicate, the thread, the message}
-- Refuses  THREAD_UNKNOWN THREAD_STATE THREAD_FULL LEASE_LOST MESSAGE_ID_REUSED HOPS_EXCEEDED TASK_UNKNOWN
-- Uses     clock key whole thread thread_over lease_lost admit word say stop_question close_thread shift view publish

local meta, events, tasks, due, leases, closed_threads = unpack(KEYS)
local now_ms, thread_id, agent, fencing_token, message_id, status, sender, sender_task, priority, kind, tail, hash, chars, awaiting, hops, summary, messages_max, hops_max, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
local to = ''
if status ~= 'in_progress' and t.creator ~= agent and t.creator ~= '' and redis.call('HEXISTS', key('task', t.creator), 'created_at_ms') == 1 then
  to = t.creator
end
local over = thread_over[status]
local spec = word(to, over and t.opening_id or '')
spec.reply_to = '' -- the end of a thread is no answer to an answer
local refusal, duplicate = admit(spec)
if duplicate then
  return {1, redis.call('HGETALL', t.key), view(message_id)}
end
refusal = refusal or lease_lost(t, agent, fencing_token)
if refusal then
  return redis.error_reply(refusal)
end
if not over and t.messages >= tonumber(messages_max) then
  return redis.error_reply('THREAD_FULL The thread ' .. thread_id .. ' has ' .. t.messages .. ' messages, which is all it takes.')
end
stop_question(t, 'question_id')
shift(t, status)
if summary ~= '' then
  redis.call('HSET', t.key, 'summary', summary)
end
say(t, spec, 'thread_' .. (status == 'in_progress' and 'updated' or status))
if status == 'blocked' then
  redis.call('HSET', t.key, 'question_id', message_id)
elseif over then
  close_thread(t)
end
publish()
return {0, redis.call('HGETALL', t.key), view(message_id)}
