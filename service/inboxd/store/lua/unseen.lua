#!lua flags=allow-oom
-- unseen: the transcript shows that the model never got these messages, though they were handed over.
--
-- Before   DELIVERED to this session, or still IN_FLIGHT to it
-- After    QUEUED in their old place, or DEAD after too many hand-overs. What was SEEN stays seen
-- Returns  {ids that came back, ids lost to another}
-- Refuses  TASK_UNKNOWN RECEIPT_UNKNOWN
-- Uses     clock key batch give_back set_due publish

local meta, events, due, task = unpack(KEYS)
local now_ms, task_id, session, receipt, ids, attempts_max, events_max, idle_after_ms = unpack(ARGV)

local named, refusal = batch(cjson.decode(ids))
if refusal then
  return redis.error_reply(refusal)
end
local done, lost = {}, {}
for _, one in ipairs(named) do
  if one.ours and (one.m.state == 'in_flight' or one.m.state == 'delivered') then
    give_back(one.m, 'unseen')
    redis.call('HSET', one.m.key, 'fence', one.m.fence + 1, 'holder', '')
    redis.call('HDEL', one.m.key, 'delivered_at_ms', 'delivered_to')
    done[#done + 1] = one.id
  else
    lost[#lost + 1] = one.id
  end
end
if #done > 0 then
  set_due(task_id)
  publish()
end
return {done, lost}
