#!lua
-- claim: own a thread for a while. The only way to own one.
--
-- Before   pending; or under a lease that has run out
-- After    claimed by the agent until now + lease_ms, under a fencing token higher than any before
-- Returns  the thread
-- Refuses  THREAD_UNKNOWN THREAD_STATE LEASE_CONFLICT LEASE_LOST THREAD_FORBIDDEN TASK_UNKNOWN
-- Uses     clock key whole thread thread_over known party shift announce_thread hear publish
--
-- A repeat of a claim_id returns the same lease and does not lengthen it; one that comes after that lease gets no other. `any` lifts
-- the rule that an agent claims only what was assigned to it, what is in the pool, or what another let go.

local meta, events, tasks, due, leases = unpack(KEYS)
local now_ms, thread_id, agent, claim_id, lease_ms, any, events_max, idle_after_ms, presence_every_ms = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
if thread_over[t.status] then
  return redis.error_reply('THREAD_STATE The thread ' .. thread_id .. ' is ' .. t.status .. ' already.')
end
local this = agent .. '/' .. claim_id
if known(t.claims, this) then
  local newest = string.match(t.claims, '%S+$') == this
  if not newest or not t.live then
    return redis.error_reply('LEASE_LOST The lease of this claim on ' .. thread_id .. ' has run out.')
  end
  return redis.call('HGETALL', t.key)
end
if t.live then
  return redis.error_reply('LEASE_CONFLICT ' .. thread_id .. ' is claimed by ' .. t.holder .. '.')
end
if any ~= '1' and t.holder == '' and t.assigned_to ~= '' and t.assigned_to ~= agent then
  return redis.error_reply('THREAD_FORBIDDEN ' .. thread_id .. ' is assigned to ' .. t.assigned_to .. '.')
end
if not hear(agent, '') then
  return redis.error_reply('TASK_UNKNOWN No task ' .. agent .. ' was declared.')
end
local before = t.holder
if before ~= '' and not t.lease_expired then
  announce_thread(t, 'thread_lease_expired')
end
local until_ms = whole(now + tonumber(lease_ms))
t.holder = agent
t.fence = t.fence + 1
redis.call('HSET', t.key, 'fence', t.fence, 'lease_agent', agent, 'claims', remember(t.claims, this), 'lease_claimed_at_ms', whole(now),
  'lease_expires_at_ms', until_ms, 'held:' .. agent, t.fence)
redis.call('HDEL', t.key, 'lease_released_at_ms', 'lease_expired', 'renewals')
redis.call('ZADD', leases, until_ms, thread_id)
part(t, '*')
join(t, agent)
shift(t, 'claimed')
announce_thread(t, 'thread_claimed', {expires_at_ms = tonumber(until_ms), taken_over_from = before ~= '' and before ~= agent and before or nil})
publish()
return redis.call('HGETALL', t.key)
