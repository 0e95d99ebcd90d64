#!lua
-- reply: a word in a thread that changes nothing of its status: an answer, a question, a control, progress.
--
-- Before   a thread that is not over
-- After    the message stands in the thread, and is mail to `to`: who opened it, or who works on it, unless another is named
-- Returns  {duplicate, the thread, the message}
-- Refuses  THREAD_UNKNOWN THREAD_STATE THREAD_FULL THREAD_FORBIDDEN LEASE_LOST MESSAGE_ID_REUSED HOPS_EXCEEDED TASK_UNKNOWN
-- Uses     clock key whole thread thread_over is_party lease_lost admit word say asked_by stop_question view publish
--
-- Whoever once held the thread writes to it only under a live lease: what a worker wrote before it lost the thread and sends late is
-- refused. Who opened it needs none. An answer that names no question is to the one that is open: of the worker, or to it.

local meta, events, tasks, due = unpack(KEYS)
local now_ms, thread_id, fencing_token, message_id, to, reply_to, any, sender, sender_task, priority, kind, tail, hash, chars, awaiting, hops, create, messages_max, hops_max, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
local function there(agent)
  return agent ~= '' and agent ~= sender_task and redis.call('HEXISTS', key('task', agent), 'created_at_ms') == 1
end
local worker = t.holder ~= '' and t.holder or t.assigned_to
local works = sender_task ~= '' and sender_task == worker
if reply_to == '' and kind == 'answer' then
  local open = works and t.asked_id or t.question_id
  reply_to = open ~= '' and asked_by(open) ~= sender_task and open or ''
end
if to == '' then
  local asker = reply_to ~= '' and reply_to == t.asked_id and asked_by(reply_to) or ''
  if there(asker) then
    to = asker
  elseif works and there(t.creator) then
    to = t.creator
  elseif there(worker) then
    to = worker
  elseif there(t.creator) then
    to = t.creator
  end
end
local spec = word(to, reply_to)
spec.create = create
local refusal, duplicate = admit(spec)
if duplicate then
  return {1, redis.call('HGETALL', t.key), view(message_id)}
end
if not refusal and any ~= '1' and not is_party(t, sender_task) then
  refusal = 'THREAD_FORBIDDEN ' .. sender_task .. ' has no part in the thread ' .. thread_id .. '.'
end
if not refusal and thread_over[t.status] then
  refusal = 'THREAD_STATE The thread ' .. thread_id .. ' is ' .. t.status .. ' already.'
end
local held = sender_task ~= '' and sender_task ~= t.creator and redis.call('HEXISTS', t.key, 'held:' .. sender_task) == 1
if not refusal and (held or fencing_token ~= '') then
  refusal = lease_lost(t, sender_task, fencing_token)
end
if not refusal and t.messages >= tonumber(messages_max) then
  refusal = 'THREAD_FULL The thread ' .. thread_id .. ' has ' .. t.messages .. ' messages, which is all it takes.'
end
if refusal then
  return redis.error_reply(refusal)
end
for _, field in ipairs({'question_id', 'asked_id'}) do
  if reply_to ~= '' and reply_to == t[field] and asked_by(reply_to) ~= sender_task then
    stop_question(t, field)
  end
end
local asks = kind == 'question' and (works and 'question_id' or 'asked_id')
if asks then
  stop_question(t, asks)
end
say(t, spec, 'thread_replied')
if asks then
  redis.call('HSET', t.key, asks, message_id)
end
publish()
return {0, redis.call('HGETALL', t.key), view(message_id)}
