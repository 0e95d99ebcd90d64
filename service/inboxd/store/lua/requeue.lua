#!lua flags=allow-oom
-- requeue: bring a dead letter back to its place, with its hand-overs counted from nothing.
--
-- Before   DEAD; or QUEUED already, so that a repeat does no harm
-- After    QUEUED
-- Returns  {pending, the message}
-- Refuses  MESSAGE_UNKNOWN MESSAGE_STATE TASK_UNKNOWN
-- Uses     clock key message leave turn announce pending view set_due publish

local meta, events, due = unpack(KEYS)
local now_ms, message_id, by, events_max, idle_after_ms = unpack(ARGV)

local m = message(message_id)
if not m then
  return redis.error_reply('MESSAGE_UNKNOWN There is no message ' .. message_id .. '.')
end
if redis.call('HEXISTS', key('task', m.task), 'created_at_ms') == 0 then
  return redis.error_reply('TASK_UNKNOWN Its task ' .. m.task .. ' was removed; declare it first.')
end
if m.state ~= 'dead' and m.state ~= 'queued' then
  return redis.error_reply('MESSAGE_STATE Only a dead letter can be requeued; this message is ' .. m.state .. '.')
end
if m.state == 'dead' then
  leave(m)
  turn(m, 'queued', 'requeued by ' .. by, 'attempts', 0, 'returned', '1', 'holder', '', 'fence', m.fence + 1)
  redis.call('HDEL', m.key, 'reason')
  redis.call('ZADD', key('returned', m.task, m.priority), m.n, m.id)
  redis.call('HINCRBY', key('task', m.task), 'queued:' .. m.priority, 1)
  redis.call('HINCRBY', key('task', m.task), 'returned:' .. m.priority, 1)
  if m.expires_at_ms then
    redis.call('ZADD', key('ttls', m.task), m.expires_at_ms, m.id)
    set_due(m.task)
  end
  if m.topic ~= '' then
    redis.call('HSETNX', key('topics', m.task), m.sender .. ' ' .. m.topic, m.id)
  end
  announce(m, 'task_message_queued', {requeued = true})
  publish()
end
return {pending(m.task), view(message_id)}
