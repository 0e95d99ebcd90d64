#!lua flags=no-writes
-- read_stats: the tallies of some minutes, oldest first. Looking changes nothing.
--
-- Returns  {this minute, {queued, delivered, waited_ms, pending of each}}
-- Uses     clock key whole

local meta = unpack(KEYS)
local now_ms, minutes = unpack(ARGV)

local this = math.floor(now / 60000)
local found = {}
for minute = this - minutes + 1, this do
  found[#found + 1] = redis.call('HMGET', key('stats', whole(minute)), 'queued', 'delivered', 'waited_ms', 'pending')
end
return {whole(this), found}
