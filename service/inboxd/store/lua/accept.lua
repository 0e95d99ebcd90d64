#!lua flags=allow-oom
-- accept: the person has read these messages of an inbox, whichever they are and in whatever order.
--
-- Before   QUEUED, wherever it stands in the queue; or DELIVERED, or DEAD
-- After    SEEN by `session`; what was seen before stays so
-- Returns  {ids seen, ids that are another's or in flight to somebody else, how many were delivered by this, and how long these had waited}
-- Refuses  TASK_UNKNOWN
-- Uses     clock key whole message deliver tally turn announce set_due publish
--
-- A hand-over, an ack and a proof in one: for a reader that shows everything and is told of each message when it was read.

local meta, events, due, task = unpack(KEYS)
local now_ms, task_id, session, ids, events_max, retention_ms, idle_after_ms = unpack(ARGV)

if redis.call('HEXISTS', task, 'created_at_ms') == 0 then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end
local done, lost, named = {}, {}, {}
local changed = false
for _, id in ipairs(cjson.decode(ids)) do
  local m = not named[id] and message(id)
  local mine = m and m.task == task_id
  if mine and (m.state == 'queued' or m.state == 'dead') then
    deliver(m, session)
    -- Whoever held it before can no longer say that it was never got.
    redis.call('HSET', m.key, 'fence', m.fence + 1, 'attempts', m.attempts + 1)
    redis.call('HDEL', m.key, 'reason')
    changed = true
  end
  if mine and m.state == 'delivered' then
    turn(m, 'seen', session, 'seen_at_ms', whole(now))
    announce(m, 'task_message_seen', {session = session})
    changed = true
  end
  if mine and m.state == 'seen' then
    done[#done + 1] = id
  elseif not named[id] then
    lost[#lost + 1] = id
  end
  named[id] = true
end
if changed then
  set_due(task_id)
  publish()
end
return {done, lost, delivered, waited_ms}
