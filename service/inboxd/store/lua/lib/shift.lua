-- shift: bring a thread into another status, in every list it stands in.
-- Uses     key place
local function shift(t, status)
  if t.status == status then
    return
  end
  local at = place(t)
  redis.call('ZREM', key('threads', t.status), t.id)
  redis.call('ZADD', key('threads', status), at, t.id)
  for _, agent in ipairs(t.agents) do
    redis.call('ZREM', key('agent_threads', agent, t.status), t.id)
    redis.call('ZADD', key('agent_threads', agent, status), at, t.id)
  end
  t.status = status
  redis.call('HSET', t.key, 'status', status)
end
