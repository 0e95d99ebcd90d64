#!lua flags=no-writes
-- fetch: the work there is for an agent: assigned to it, held by it, in the pool, or let go by another. Changes nothing, grants nothing.
--
-- Returns  {now, last event number, {id, thread of each}}: most urgent first, oldest first within
-- Uses     clock key whole thread priorities
--
-- Without `statuses`: what is pending or blocked, and whatever lies under a lease that has run out. Looks at `scan_max` threads of each
-- list at most, in that order, and at no more than it needs.

local meta, leases = unpack(KEYS)
local now_ms, agent, statuses, limit, unread, scan_max = unpack(ARGV)

limit = tonumber(limit)
local me = agent == 'user' and 'user' or 'task:' .. agent
local function asked_for(status)
  return string.find(',' .. statuses .. ',', ',' .. status .. ',', 1, true) ~= nil
end
local function has_news(t)
  local f = redis.call('HMGET', t.key, 'read:' .. agent, 'prev_n')
  local by_others = t.last_sender ~= me and t.last_n or tonumber(f[2]) or 0
  return by_others > (tonumber(f[1]) or 0)
end
local function wanted(t)
  local mine = t.live and t.holder == agent or not t.live and (t.holder ~= '' or t.assigned_to == agent or t.assigned_to == '')
  local fits = statuses ~= '' and asked_for(t.status) or statuses == '' and (t.status == 'pending' or t.status == 'blocked' or not t.live)
  return mine and fits and (unread ~= '1' or has_news(t))
end
local rows, seen = {}, {}
-- Of one list, sorted as the answer is: the first `limit` that are wanted.
local function gather(read)
  local found, at = 0, 0
  while found < limit and at < tonumber(scan_max) do
    local ids = read(at, 50)
    for _, id in ipairs(ids) do
      local t = found < limit and thread(id)
      if t and wanted(t) then
        found = found + 1
        if not seen[id] then
          seen[id] = true
          rows[#rows + 1] = {id = id, rank = ranks[t.priority], n = tonumber(t.n)}
        end
      end
    end
    at = at + #ids
    if #ids < 50 then
      return
    end
  end
end
for _, status in ipairs({'pending', 'claimed', 'in_progress', 'blocked'}) do
  for _, list in ipairs({agent, '*'}) do
    -- Unasked, what is claimed or in progress is wanted only when it was let go: then it is in the pool, or will be in a moment.
    if statuses == '' and (list == '*' or status == 'pending' or status == 'blocked') or asked_for(status) then
      gather(function(at, count)
        return redis.call('ZRANGE', key('agent_threads', list, status), at, at + count - 1)
      end)
    end
  end
end
for _, id in ipairs(redis.call('ZRANGE', leases, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, scan_max)) do
  local t = not seen[id] and thread(id)
  if t and wanted(t) then
    rows[#rows + 1] = {id = id, rank = ranks[t.priority], n = tonumber(t.n)}
  end
end
table.sort(rows, function(one, other)
  if one.rank ~= other.rank then
    return one.rank > other.rank
  end
  return one.n < other.n
end)
local found = {}
for i = 1, math.min(#rows, limit) do
  found[i] = {rows[i].id, redis.call('HGETALL', key('thread', rows[i].id))}
end
return {whole(now), redis.call('HGET', meta, 'seq') or '0', found}
