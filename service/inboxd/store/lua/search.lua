#!lua flags=no-writes
-- search: messages of some timelines that may fit, newest first, from `before` (a message number, exclusive) on. Looking consumes nothing.
--
-- Returns  {number to go on from or '', messages looked at, {messages}}
-- Uses     key view whole
--
-- A message fits when its content, as it is stored and in small letters, has one of `needles` in it; whether that is where it should
-- be is for the caller to see. `names` are the tasks whose timelines are looked through: each is sorted, so they are merged, and a
-- message that stands in two is looked at once. Looks at no more than `scan_max` messages and about `chars_max` of text.

local meta = unpack(KEYS)
local names, before, needles, senders, from_ms, to_ms, limit, scan_max, chars_max = unpack(ARGV)

names, needles = cjson.decode(names), cjson.decode(needles)
limit, scan_max, chars_max = tonumber(limit), tonumber(scan_max), tonumber(chars_max)
from_ms, to_ms = tonumber(from_ms), tonumber(to_ms)
local at_once = math.max(4, math.min(100, math.ceil(2 * scan_max / math.max(1, #names))))

-- One timeline, read piece by piece: `n` and `id` are its newest message not yet looked at.
local function advance(line)
  line.at = line.at + 1
  local row = line.rows[line.at]
  if not row and #line.rows == at_once then
    line.rows = redis.call('XREVRANGE', line.key, '(' .. line.rows[at_once][1], '-', 'COUNT', at_once)
    line.at, row = 1, line.rows[1]
  end
  if not row then
    return false
  end
  line.n, line.id = tonumber(string.match(row[1], '^%d+')), row[2][2]
  return true
end

-- The timelines as a heap, the one with the newest message on top.
local heap = {}
local function sink(i)
  while true do
    local newest = i
    for child = 2 * i, 2 * i + 1 do
      if heap[child] and heap[child].n > heap[newest].n then
        newest = child
      end
    end
    if newest == i then
      return
    end
    heap[i], heap[newest] = heap[newest], heap[i]
    i = newest
  end
end
for _, name in ipairs(names) do
  local line = {key = key('timeline', name), at = 0}
  line.rows = redis.call('XREVRANGE', line.key, before == '' and '+' or '(' .. before .. '-0', '-', 'COUNT', at_once)
  if advance(line) then
    heap[#heap + 1] = line
  end
end
for i = math.floor(#heap / 2), 1, -1 do
  sink(i)
end

local function fits(doc)
  local small = string.lower(doc)
  for _, needle in ipairs(needles) do
    if string.find(small, needle, 1, true) then
      return true
    end
  end
  return #needles == 0
end

local found, scanned, chars, last = {}, 0, 0, ''
while heap[1] and #found < limit and scanned < scan_max and chars < chars_max do
  local n, id = heap[1].n, heap[1].id
  if whole(n) ~= last then
    last = whole(n)
    scanned = scanned + 1
    local f = redis.call('HMGET', key('msg', id), 'created_at_ms', 'sender', 'doc')
    if f[1] and from_ms and tonumber(f[1]) < from_ms then
      -- Numbers rise with time: everything behind is older still.
      heap = {}
      break
    end
    if f[1] and (not to_ms or tonumber(f[1]) <= to_ms) and (senders == '' or string.find(',' .. senders .. ',', ',' .. f[2] .. ',', 1, true)) then
      chars = chars + #f[3]
      if fits(f[3]) then
        found[#found + 1] = view(id)
      end
    end
  end
  if not advance(heap[1]) then
    heap[1] = heap[#heap]
    heap[#heap] = nil
  end
  if heap[1] then
    sink(1)
  end
end
return {heap[1] and last or '', scanned, found}
