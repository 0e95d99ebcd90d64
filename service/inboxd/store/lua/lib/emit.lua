-- emit: write one event into the namespace's log. Returns its number. `publish` sends out all that were written.
-- Needs    meta events events_max
-- Uses     clock whole
local emitted = {}
local function emit(type, event)
  local n = redis.call('HINCRBY', meta, 'seq', 1)
  event.id = n
  event.type = type
  event.at_ms = now
  local line = cjson.encode(event)
  redis.call('XADD', events, 'MAXLEN', '~', events_max, whole(n) .. '-0', 'event', line)
  emitted[#emitted + 1] = line
  return n
end
