#!lua flags=allow-oom
-- take: hand one certain message of an inbox to a session, as pull would; it is named, because the session is being shown it.
--
-- Before   QUEUED; with `again` also IN_FLIGHT to this very session, which lost the answer
-- After    IN_FLIGHT, held by the session until now + hold_ms, under the receipt `pull_id`
-- Returns  the message, or {} when it is in other hands or was delivered; a repeat of a pull_id, what it is now
-- Refuses  TASK_UNKNOWN
-- Uses     clock key whole message leave turn announce set_due hear view publish

local meta, events, tasks, due, task, holds, pull = unpack(KEYS)
local now_ms, task_id, session, pull_id, message_id, again, hold_ms, record_ms, events_max, idle_after_ms, presence_every_ms = unpack(ARGV)

if not hear(task_id, '') then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end
local m = message(message_id)
if redis.call('EXISTS', pull) == 1 then
  publish()
  return view(message_id)
end
if not m or m.task ~= task_id or not (m.state == 'queued' or again == '1' and m.state == 'in_flight' and m.holder == session) then
  publish()
  return {}
end
leave(m)
redis.call('HINCRBY', task, 'held', 1)
redis.call('ZADD', holds, whole(now + tonumber(hold_ms)), message_id)
m.fence = m.fence + 1
m.attempts = m.attempts + 1
turn(m, 'in_flight', session, 'fence', m.fence, 'attempts', m.attempts, 'holder', session, 'returned', '1')
announce(m, 'task_message_in_flight', {session = session, attempts = m.attempts})
redis.call('RPUSH', pull, session, 'hold', m.fence .. ' ' .. message_id)
redis.call('PEXPIRE', pull, record_ms)
set_due(task_id)
publish()
return view(message_id)
