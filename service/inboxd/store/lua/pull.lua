#!lua flags=allow-oom
-- pull: hand the next messages of one inbox to one session.
--
-- Before   QUEUED
-- After    IN_FLIGHT, held by the session until now + hold_ms
-- Returns  {pending, left at or above min_rank, {messages}, `ack` or `hold`: how it was first asked for}
-- Refuses  TASK_UNKNOWN PULL_ID_REUSED
-- Uses     clock key priorities message reclaim drop turn announce pending hear due_by view publish
--
-- A repeat of a pull_id returns what is still held under it (with `ack`: also what it delivered) and takes nothing new. Delivering is
-- never done here, even with `ack`: a copy of this call that arrives late, when its caller is long gone, may only take what comes back.
-- `overhead_chars` is what showing each message costs beside its text; `fresh_only` leaves out what was handed over before.
-- An empty pull writes nothing but, now and then, that the session lives.

local meta, events, tasks, due, task, holds, pull = unpack(KEYS)
local now_ms, task_id, session, pull_id, max, max_chars, min_rank, hold_ms, ack, heard, overhead_chars, fresh_only, attempts_max, record_ms, events_max, retention_ms, idle_after_ms, presence_every_ms = unpack(ARGV)

-- All that is asked of the task, in one call: this runs after every tool call of every agent, and mostly finds nothing.
local function look()
  return redis.call('HMGET', task, 'state', 'last_heard_ms', 'session', 'waits_for_person', 'created_at_ms', 'due_ms',
    'queued:low', 'queued:normal', 'queued:high', 'queued:urgent',
    'returned:low', 'returned:normal', 'returned:high', 'returned:urgent')
end
local known = look()
if not known[5] then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end
min_rank = tonumber(min_rank)

local earlier = redis.call('LRANGE', pull, 0, -1)
if #earlier > 0 then
  if earlier[1] ~= session then
    return redis.error_reply('PULL_ID_REUSED The pull_id ' .. pull_id .. ' already names a batch of another session.')
  end
  local again = {}
  for i = 3, #earlier do
    local fence, id = string.match(earlier[i], '^(%d+) (.+)$')
    local m = message(id)
    if m and m.fence == tonumber(fence) then
      local held = m.state == 'in_flight' and redis.call('ZSCORE', holds, id)
      local done = earlier[2] == 'ack' and (m.state == 'delivered' or m.state == 'seen')
      if done or (held and tonumber(held) > now) then
        again[#again + 1] = view(id)
      end
    end
  end
  return {pending(task_id), pending(task_id, min_rank), again, earlier[2]}
end

if known[6] and tonumber(known[6]) <= now then
  reclaim(task_id, 1000)
  known = look()
end
if heard == '1' then
  hear(task_id, session, known)
end
local queued, returned = {}, {}
for rank = 0, 3 do
  queued[rank] = tonumber(known[7 + rank]) or 0
  returned[rank] = tonumber(known[11 + rank]) or 0
end
local function waiting(least)
  local total = 0
  for rank = least, 3 do
    total = total + queued[rank]
  end
  return total
end

local mode = ack == '1' and 'ack' or 'hold'
local taken = {}
local room_chars = tonumber(max_chars)
local until_ms = now + tonumber(hold_ms)

-- Takes one waiting message; false when it does not fit, and then it stays where it is.
local function take(id, chars)
  local m = message(id)
  if not m or m.state ~= 'queued' then
    return true
  end
  local rank = ranks[m.priority]
  if m.expires_at_ms and m.expires_at_ms <= now then
    -- One of more than reclaim looks at: still, what has expired is never handed over.
    drop(m, 'expired', 'ttl')
    queued[rank] = queued[rank] - 1
    return true
  end
  chars = tonumber(chars) + tonumber(overhead_chars)
  if room_chars and chars > room_chars and #taken > 0 then
    return false
  end
  if room_chars then
    room_chars = room_chars - chars
  end
  queued[rank] = queued[rank] - 1
  redis.call('HINCRBY', task, 'queued:' .. m.priority, -1)
  if m.returned then
    redis.call('HINCRBY', task, 'returned:' .. m.priority, -1)
    redis.call('ZREM', key('returned', task_id, m.priority), id)
  end
  redis.call('HINCRBY', task, 'held', 1)
  redis.call('ZADD', holds, whole(until_ms), id)
  if m.expires_at_ms then
    redis.call('ZREM', key('ttls', task_id), id)
  end
  m.fence = m.fence + 1
  m.attempts = m.attempts + 1
  m.holder = session
  turn(m, 'in_flight', session, 'fence', m.fence, 'attempts', m.attempts, 'holder', session)
  announce(m, 'task_message_in_flight', {session = session, attempts = m.attempts, pending = waiting(0)})
  taken[#taken + 1] = {id = id, fence = m.fence}
  return true
end

-- What came back is older than anything not yet read, so it goes first.
local function take_returned(priority)
  local returned = key('returned', task_id, priority)
  for _, id in ipairs(redis.call('ZRANGE', returned, 0, max - #taken - 1)) do
    if not take(id, redis.call('HGET', key('msg', id), 'chars') or 0) then
      return false
    end
  end
  return true
end

-- Reading from the group cannot be undone, so where a budget decides, the next entry is looked at first.
local function take_new(priority, count)
  local inbox = key('inbox', task_id, priority)
  while count > 0 and #taken < tonumber(max) do
    local want = math.min(max - #taken, count)
    if room_chars then
      want = 1
      if #taken > 0 then
        local groups = redis.call('XINFO', 'GROUPS', inbox)[1]
        local last = '0-0'
        for i = 1, #groups, 2 do
          if groups[i] == 'last-delivered-id' then
            last = groups[i + 1]
          end
        end
        local ahead = redis.call('XRANGE', inbox, '(' .. last, '+', 'COUNT', 1)
        if not ahead[1] or tonumber(ahead[1][2][4]) + tonumber(overhead_chars) > room_chars then
          return false
        end
      end
    end
    local read = redis.call('XREADGROUP', 'GROUP', 'readers', session, 'COUNT', want, 'STREAMS', inbox, '>')
    if not read or not read[1] then
      return true
    end
    for _, entry in ipairs(read[1][2]) do
      take(entry[2][2], entry[2][4])
      count = count - 1
    end
  end
  return true
end

for _, priority in ipairs(priorities) do
  local rank = ranks[priority]
  if rank < min_rank or #taken >= tonumber(max) then
    break
  end
  local fresh = queued[rank] - returned[rank]
  if returned[rank] > 0 and fresh_only ~= '1' and not take_returned(priority) then
    break
  end
  if fresh > 0 and #taken < tonumber(max) and not take_new(priority, fresh) then
    break
  end
end

local shown = {}
if #taken > 0 then
  local record = {}
  for i, one in ipairs(taken) do
    record[i] = one.fence .. ' ' .. one.id
    shown[i] = view(one.id)
  end
  redis.call('RPUSH', pull, session, mode, unpack(record))
  redis.call('PEXPIRE', pull, record_ms)
  due_by(task_id, until_ms)
end
publish()
return {waiting(0), waiting(min_rank), shown, mode}
