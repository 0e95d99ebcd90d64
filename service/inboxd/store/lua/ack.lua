#!lua flags=allow-oom
-- ack: the session got these messages.
--
-- Before   IN_FLIGHT to this session; or QUEUED again because its hold ran out, while nobody else took it
-- After    DELIVERED; what was delivered to it before stays so
-- Returns  {ids delivered, ids lost to another, how many were delivered by this, and how long these had waited}
-- Refuses  TASK_UNKNOWN RECEIPT_UNKNOWN RECEIPT_LOST
-- Uses     clock key batch deliver tally publish

local meta, events, task = unpack(KEYS)
local now_ms, task_id, session, receipt, ids, events_max, retention_ms = unpack(ARGV)

local named, refusal = batch(cjson.decode(ids))
if refusal then
  return redis.error_reply(refusal)
end
local ours, done, lost = {}, {}, {}
for _, one in ipairs(named) do
  local state = one.m and one.m.state
  if one.ours and (state == 'in_flight' or state == 'queued') then
    ours[#ours + 1] = one
    done[#done + 1] = one.id
  elseif one.ours and (state == 'delivered' or state == 'seen') then
    done[#done + 1] = one.id
  else
    lost[#lost + 1] = one.id
  end
end
if #done == 0 and #lost > 0 then
  return redis.error_reply('RECEIPT_LOST The hold ran out, or the messages were released: they are no longer held by this session.')
end
for _, one in ipairs(ours) do
  deliver(one.m, one.session)
end
if #ours > 0 then
  publish()
end
return {done, lost, delivered, waited_ms}
