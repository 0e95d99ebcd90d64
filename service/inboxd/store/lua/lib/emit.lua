-- emit: write one event into the namespace's log. Returns its number. `publish` sends out all that were written.
-- An event of a task says how much mail waits for it, so that a badge needs to ask nothing else.
-- Needs    meta events events_max
-- Uses     clock whole pending
local emitted = {}
local function emit(type, event)
  local n = redis.call('HINCRBY', meta, 'seq', 1)
  event.id = n
  event.type = type
  event.at_ms = now
  if event.task and not event.pending then
    event.pending = pending(event.task)
  end
  local line = cjson.encode(event)
  redis.call('XADD', events, 'MAXLEN', '~', events_max, whole(n) .. '-0', 'event', line)
  emitted[#emitted + 1] = line
  return n
end
