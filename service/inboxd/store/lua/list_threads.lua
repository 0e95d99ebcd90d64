#!lua flags=no-writes
-- list_threads: threads in some statuses, newest first, from `before` (a thread's number, exclusive) on. Looking changes nothing.
--
-- Returns  {now, last event number, {id, thread of each}, number to go on from or ''}
-- Uses     clock key whole priorities place
--
-- `agent` narrows it to the threads a task has a part in, which costs nothing however many others there are. Looks at no more than
-- `scan_max` rows, so a filter that fits little returns early with a number to go on from.

local meta = unpack(KEYS)
local now_ms, agent, statuses, created_by, assigned_to, before, limit, scan_max = unpack(ARGV)

-- One list a status and priority, each newest first, read a few rows at a time; what they have in front is merged.
local lists = {}
for status in string.gmatch(statuses, '[^,]+') do
  for rank = 0, 3 do
    local first = first_place(rank)
    local from = before == '' and first_place(rank - 1) or math.min(first + tonumber(before), first_place(rank - 1))
    lists[#lists + 1] = {
      key = agent == '' and key('threads', status) or key('agent_threads', agent, status), first = whole(first), from = whole(from), rows = {}, at = 1,
    }
  end
end
local function front(list)
  if list.at > #list.rows and list.from then
    list.rows = redis.call('ZRANGE', list.key, '(' .. list.from, list.first, 'BYSCORE', 'REV', 'LIMIT', 0, 20, 'WITHSCORES')
    list.at = 1
    list.from = #list.rows == 40 and list.rows[40]
  end
  local stands = list.rows[list.at + 1]
  return stands and stands - list.first
end
local function next_row()
  local newest, n = nil, -1
  for _, list in ipairs(lists) do
    local here = front(list)
    if here and here > n then
      newest, n = list, here
    end
  end
  return newest, n
end

local found, scanned, last = {}, 0, ''
local list, n = next_row()
while list and #found < tonumber(limit) and scanned < tonumber(scan_max) do
  local id = list.rows[list.at]
  list.at = list.at + 2
  last = whole(n)
  scanned = scanned + 1
  local f = redis.call('HMGET', key('thread', id), 'created_by', 'assigned_to')
  if f[1] and (created_by == '' or f[1] == created_by) and (assigned_to == '' or f[2] == assigned_to) then
    found[#found + 1] = {id, redis.call('HGETALL', key('thread', id))}
  end
  list, n = next_row()
end
return {whole(now), redis.call('HGET', meta, 'seq') or '0', found, list and last or ''}
