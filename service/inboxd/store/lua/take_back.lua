#!lua flags=allow-oom
-- take_back: a message that nobody got is no longer meant.
--
-- Before   QUEUED or DEAD; or taken back already, so that a repeat does no harm
-- After    SUPERSEDED
-- Returns  {pending, the message}
-- Refuses  MESSAGE_UNKNOWN MESSAGE_STATE SENDER_FORBIDDEN
-- Uses     clock key message drop pending view set_due publish
--
-- `sender` is the one whose messages may be taken back ('' for anybody's), `spared` the one whose may not.

local meta, events, due = unpack(KEYS)
local now_ms, message_id, sender, spared, events_max, retention_ms, idle_after_ms = unpack(ARGV)

local m = message(message_id)
if not m then
  return redis.error_reply('MESSAGE_UNKNOWN There is no message ' .. message_id .. '.')
end
if (sender ~= '' and m.sender ~= sender) or (spared ~= '' and m.sender == spared) then
  return redis.error_reply('SENDER_FORBIDDEN This message is not yours to take back: ' .. m.sender .. ' sent it.')
end
if m.state ~= 'queued' and m.state ~= 'dead' and m.state ~= 'superseded' then
  return redis.error_reply('MESSAGE_STATE It is too late to take this message back: it is ' .. m.state .. '.')
end
if m.state ~= 'superseded' then
  drop(m, 'superseded', 'taken_back')
  set_due(m.task)
  publish()
end
return {pending(m.task), view(message_id)}
