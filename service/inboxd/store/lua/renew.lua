#!lua flags=allow-oom
-- renew: keep a lease for longer.
--
-- Before   a live lease of this agent, under this fencing token
-- After    it runs out at now + lease_ms
-- Returns  the thread
-- Refuses  THREAD_UNKNOWN THREAD_STATE LEASE_LOST
-- Uses     clock key whole thread lease_lost known announce_thread hear publish

local meta, events, tasks, due, leases = unpack(KEYS)
local now_ms, thread_id, agent, fencing_token, renew_id, lease_ms, events_max, idle_after_ms, presence_every_ms = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
local refusal = lease_lost(t, agent, fencing_token)
if refusal then
  return redis.error_reply(refusal)
end
local renewals = redis.call('HGET', t.key, 'renewals') or ''
if renew_id ~= '' and known(renewals, renew_id) then
  return redis.call('HGETALL', t.key)
end
local until_ms = whole(now + tonumber(lease_ms))
hear(agent, '')
redis.call('HSET', t.key, 'lease_expires_at_ms', until_ms)
if renew_id ~= '' then
  redis.call('HSET', t.key, 'renewals', remember(renewals, renew_id))
end
redis.call('ZADD', leases, until_ms, thread_id)
announce_thread(t, 'thread_renewed', {expires_at_ms = tonumber(until_ms)})
publish()
return redis.call('HGETALL', t.key)
