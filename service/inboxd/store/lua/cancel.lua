#!lua
-- cancel: whoever opened the thread no longer wants it.
--
-- Before   a thread that is not over
-- After    cancelled; whoever works on it is told by mail; mail of it that its worker never got is taken back instead
-- Returns  {duplicate, the thread, the message}
-- Refuses  THREAD_UNKNOWN THREAD_STATE THREAD_FORBIDDEN MESSAGE_ID_REUSED HOPS_EXCEEDED TASK_UNKNOWN
-- Uses     clock key whole thread thread_over message drop admit word say shift close_thread view publish
--
-- `any` lifts the rule that only who opened it cancels it, but for threads that `spared` opened.

local meta, events, tasks, due, leases, closed_threads = unpack(KEYS)
local now_ms, thread_id, message_id, any, spared, sender, sender_task, priority, kind, tail, hash, chars, awaiting, hops, summary, hops_max, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
-- The mail of a worker that has got none of it; nil when it has got some, or began without.
local function untouched()
  if t.holder ~= '' or t.assigned_to == '' then
    return nil
  end
  local found = {}
  for _, row in ipairs(redis.call('XRANGE', key('thread_log', thread_id), '-', '+')) do
    local m = row[2][8] == t.assigned_to and message(row[2][2])
    if m and m.state == 'queued' and m.attempts == 0 then
      found[#found + 1] = m
    elseif m and m.state ~= 'superseded' and m.state ~= 'expired' then
      return nil
    end
  end
  return found
end
local unread = untouched()
local to = unread and '' or (t.holder ~= '' and t.holder or t.assigned_to)
if to == sender_task or (to ~= '' and redis.call('HEXISTS', key('task', to), 'created_at_ms') == 0) then
  to = ''
end
local spec = word(to, t.opening_id)
spec.reply_to = '' -- the end of a thread is no answer to an answer
local refusal, duplicate = admit(spec)
if duplicate then
  return {1, redis.call('HGETALL', t.key), view(message_id)}
end
local opened = sender_task ~= '' and sender_task == t.creator
if not refusal and not opened and (any ~= '1' or t.created_by == spared) then
  refusal = 'THREAD_FORBIDDEN Only who opened the thread ' .. thread_id .. ' may cancel it.'
end
if not refusal and thread_over[t.status] then
  refusal = 'THREAD_STATE The thread ' .. thread_id .. ' is ' .. t.status .. ' already.'
end
if refusal then
  return redis.error_reply(refusal)
end
for _, m in ipairs(unread or {}) do
  drop(m, 'superseded', message_id)
end
shift(t, 'cancelled')
redis.call('HSET', t.key, 'summary', summary)
say(t, spec, 'thread_cancelled')
close_thread(t)
publish()
return {0, redis.call('HGETALL', t.key), view(message_id)}
