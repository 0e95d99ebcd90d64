#!lua flags=allow-oom
-- release: the session hands these messages back unread.
--
-- Before   IN_FLIGHT to this session
-- After    QUEUED in their old place, or DEAD after too many hand-overs; the receipt is spent.
--          `uncounted`: it was never shown to anybody, so this hand-over does not count
-- Returns  {ids released, ids lost to another}
-- Refuses  TASK_UNKNOWN RECEIPT_UNKNOWN
-- Uses     clock key batch give_back set_due publish

local meta, events, due, task = unpack(KEYS)
local now_ms, task_id, session, receipt, ids, uncounted, attempts_max, events_max, idle_after_ms = unpack(ARGV)

local named, refusal = batch(cjson.decode(ids))
if refusal then
  return redis.error_reply(refusal)
end
local done, lost = {}, {}
for _, one in ipairs(named) do
  if one.ours and one.m.state == 'in_flight' then
    if uncounted == '1' then
      one.m.attempts = one.m.attempts - 1
      redis.call('HSET', one.m.key, 'attempts', one.m.attempts)
    end
    give_back(one.m, 'released')
    redis.call('HSET', one.m.key, 'fence', one.m.fence + 1, 'holder', '')
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
