#!lua flags=allow-oom
-- seen: the transcript shows that the model got these messages.
--
-- Before   DELIVERED to this session; or still IN_FLIGHT, or QUEUED again after its hold ran out: delivered and seen at once
-- After    SEEN
-- Returns  {ids seen, ids lost to another, how many were delivered by this, and how long these had waited}
-- Refuses  TASK_UNKNOWN RECEIPT_UNKNOWN
-- Uses     clock key whole batch deliver tally turn announce publish

local meta, events, task = unpack(KEYS)
local now_ms, task_id, session, receipt, ids, events_max, retention_ms = unpack(ARGV)

local named, refusal = batch(cjson.decode(ids))
if refusal then
  return redis.error_reply(refusal)
end
local done, lost = {}, {}
for _, one in ipairs(named) do
  local m = one.m
  if one.ours and (m.state == 'in_flight' or m.state == 'queued') then
    deliver(m, one.session)
  end
  if one.ours and m.state == 'delivered' then
    turn(m, 'seen', one.session, 'seen_at_ms', whole(now))
    announce(m, 'task_message_seen', {session = one.session})
  end
  if one.ours and m.state == 'seen' then
    done[#done + 1] = one.id
  else
    lost[#lost + 1] = one.id
  end
end
if #done > 0 then
  publish()
end
return {done, lost, delivered, waited_ms}
