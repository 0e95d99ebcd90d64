#!lua flags=allow-oom
-- expire_leases: leases whose time is up: their threads go into the pool, and an event says so. At most `limit` of them.
--
-- Before   claimed, in_progress or blocked under a lease that has run out
-- After    the same status; anybody may claim it
-- Returns  how many there were
-- Uses     clock key whole thread party announce_thread publish

local meta, events, leases = unpack(KEYS)
local now_ms, limit, events_max = unpack(ARGV)

local over = redis.call('ZRANGE', leases, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, limit)
for _, id in ipairs(over) do
  redis.call('ZREM', leases, id)
  local t = thread(id)
  if t and t.holder ~= '' and not t.live and not t.lease_expired then
    redis.call('HSET', t.key, 'lease_expired', '1')
    join(t, '*')
    announce_thread(t, 'thread_lease_expired')
  end
end
publish()
return #over
