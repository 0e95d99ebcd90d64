#!lua flags=allow-oom
-- subagent: a session goes into a subagent, or comes back from one; for hosts whose events do not tell. Several may run at once.
--
-- Returns  how many it is inside of now

local session = unpack(KEYS)
local inside, ttl_ms = unpack(ARGV)

local count = redis.call('HINCRBY', session, 'in_subagent', inside == '1' and 1 or -1)
if count <= 0 then
  redis.call('HDEL', session, 'in_subagent')
  count = 0
end
redis.call('PEXPIRE', session, ttl_ms)
return count
