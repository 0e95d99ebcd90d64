#!lua flags=allow-oom
-- add_stats: what was queued and delivered in a minute, as a broker has counted it since it last said so. For the charts.
--
-- Returns  1
-- Uses     key

local meta = unpack(KEYS)
local minute, queued, delivered, waited_ms = unpack(ARGV)

local stats = key('stats', minute)
redis.call('HINCRBY', stats, 'queued', queued)
redis.call('HINCRBY', stats, 'delivered', delivered)
redis.call('HINCRBY', stats, 'waited_ms', waited_ms)
redis.call('PEXPIRE', stats, 7200000)
return 1
