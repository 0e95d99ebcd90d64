#!lua flags=allow-oom
-- drop_threads: finished threads that were kept long enough. At most `limit` of them.
--
-- Returns  how many there were
-- Uses     clock key whole thread

local meta, closed_threads = unpack(KEYS)
local now_ms, limit = unpack(ARGV)

local over = redis.call('ZRANGE', closed_threads, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, limit)
for _, id in ipairs(over) do
  local t = thread(id)
  if t then
    redis.call('ZREM', key('threads', t.status), id)
    for _, agent in ipairs(t.agents) do
      redis.call('ZREM', key('agent_threads', agent, t.status), id)
    end
    redis.call('UNLINK', t.key, key('thread_log', id))
  end
  redis.call('ZREM', closed_threads, id)
end
return #over
