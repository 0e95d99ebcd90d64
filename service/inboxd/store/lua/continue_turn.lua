#!lua flags=allow-oom
-- continue_turn: a session's turn goes on because of mail; count how often in a row.
--
-- Returns  the count
--
-- `again` says that the turn already goes on because of us; otherwise it is the first.

local session = unpack(KEYS)
local again, ttl_ms = unpack(ARGV)

local count = again == '1' and redis.call('HINCRBY', session, 'continuations', 1) or 1
redis.call('HSET', session, 'continuations', count)
redis.call('PEXPIRE', session, ttl_ms)
return count
