#!lua flags=no-writes
-- follow: the log from an event's number on, that event included, so that whoever knows it can see that it is still the same.
--
-- Returns  {number of the last event there ever was, {events as they were written}}

local meta, events = unpack(KEYS)
local after, limit = unpack(ARGV)

local lines = {}
if tonumber(limit) > 0 then
  for i, row in ipairs(redis.call('XRANGE', events, after .. '-0', '+', 'COUNT', limit)) do
    lines[i] = row[2][2]
  end
end
return {redis.call('HGET', meta, 'seq') or '0', lines}
