-- leave: take a message out of wherever it waits or is held, counters included. It is then in no queue at all.
-- Uses     key
local function leave(m)
  local task = key('task', m.task)
  if m.state == 'in_flight' then
    redis.call('ZREM', key('holds', m.task), m.id)
    redis.call('HINCRBY', task, 'held', -1)
  elseif m.state == 'queued' then
    redis.call('HINCRBY', task, 'queued:' .. m.priority, -1)
    if m.returned then
      redis.call('HINCRBY', task, 'returned:' .. m.priority, -1)
      redis.call('ZREM', key('returned', m.task, m.priority), m.id)
    end
  elseif m.state == 'dead' then
    redis.call('ZREM', key('dead', m.task), m.id)
    redis.call('HINCRBY', task, 'dead', -1)
  end
  if not m.returned then
    local inbox = key('inbox', m.task, m.priority)
    redis.call('XACK', inbox, 'readers', m.n .. '-0')
    redis.call('XDEL', inbox, m.n .. '-0')
  end
  if m.expires_at_ms then
    redis.call('ZREM', key('ttls', m.task), m.id)
  end
  if m.topic ~= '' then
    local topics = key('topics', m.task)
    local field = m.sender .. ' ' .. m.topic
    if redis.call('HGET', topics, field) == m.id then
      redis.call('HDEL', topics, field)
    end
  end
end
