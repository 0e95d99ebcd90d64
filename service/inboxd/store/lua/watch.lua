#!lua flags=no-writes
-- watch: what happened to threads behind an event number. Looking changes nothing: waiting is done elsewhere.
--
-- Returns  {number of the last event looked at, {events}, 1 when the log no longer reaches back so far}
--
-- `agents` narrows it to threads that one of them has a part in, `statuses` to events that left a thread in one of these.

local meta, events = unpack(KEYS)
local after, agents, statuses, limit, scan_max = unpack(ARGV)

local seq = redis.call('HGET', meta, 'seq') or '0'
if after == '' then
  return {seq, {}, 0}
end
after = tonumber(after)
local first = redis.call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
local kept = first and tonumber(string.match(first[1], '^%d+')) or tonumber(seq) + 1
if after > tonumber(seq) or after + 1 < kept then
  return {seq, {}, 1}
end
local wanted = agents ~= '' and {} or nil
for agent in string.gmatch(agents, '[^,]+') do
  wanted[agent] = true
end
local function fits(event)
  if string.sub(event.type, 1, 7) ~= 'thread_' or event.type == 'thread_read' then
    return false
  end
  if statuses ~= '' and not string.find(',' .. statuses .. ',', ',' .. event.status .. ',', 1, true) then
    return false
  end
  for _, agent in ipairs(wanted and event.agents or {}) do
    if wanted[agent] then
      return true
    end
  end
  return not wanted
end
local found = {}
for _, row in ipairs(redis.call('XRANGE', events, '(' .. string.format('%.0f', after) .. '-0', '+', 'COUNT', scan_max)) do
  after = string.match(row[1], '^%d+')
  if fits(cjson.decode(row[2][2])) then
    found[#found + 1] = row[2][2]
    if #found == tonumber(limit) then
      break
    end
  end
end
return {string.format('%.0f', after), found, 0}
