#!lua flags=allow-oom
-- hold: keep a batch in flight for longer, because it is not known yet whether the model got it.
--
-- Before   IN_FLIGHT under this receipt; or QUEUED again because its hold ran out, while nobody else took it
-- After    IN_FLIGHT until now + hold_ms, the same hand-over going on
-- Returns  {ids held, ids lost to another}
-- Refuses  TASK_UNKNOWN RECEIPT_UNKNOWN
-- Uses     clock key whole batch leave turn announce set_due publish

local meta, events, due, task, holds = unpack(KEYS)
local now_ms, task_id, session, receipt, ids, hold_ms, events_max, idle_after_ms = unpack(ARGV)

local named, refusal = batch(cjson.decode(ids))
if refusal then
  return redis.error_reply(refusal)
end
local until_ms = whole(now + tonumber(hold_ms))
local done, lost = {}, {}
for _, one in ipairs(named) do
  local m = one.m
  if one.ours and m.state == 'queued' then
    leave(m)
    redis.call('HINCRBY', task, 'held', 1)
    turn(m, 'in_flight', one.session, 'returned', '1')
    announce(m, 'task_message_in_flight', {session = one.session, attempts = m.attempts})
  end
  if one.ours and m.state == 'in_flight' then
    redis.call('ZADD', holds, until_ms, m.id)
    done[#done + 1] = one.id
  elseif one.ours and (m.state == 'delivered' or m.state == 'seen') then
    done[#done + 1] = one.id
  else
    lost[#lost + 1] = one.id
  end
end
set_due(task_id)
publish()
return {done, lost}
