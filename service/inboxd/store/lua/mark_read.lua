#!lua flags=allow-oom
-- mark_read: an agent has read a thread up to a message. Only this moves its read cursor, and only forward.
--
-- Returns  the thread
-- Refuses  THREAD_UNKNOWN THREAD_FORBIDDEN
-- Uses     clock key whole thread may_see emit publish

local meta, events = unpack(KEYS)
local now_ms, thread_id, agent, any, up_to, events_max = unpack(ARGV)

local t = thread(thread_id)
if not t then
  return redis.error_reply('THREAD_UNKNOWN There is no thread ' .. thread_id .. '.')
end
if any ~= '1' and not may_see(t, agent) then
  return redis.error_reply('THREAD_FORBIDDEN ' .. agent .. ' has no part in the thread ' .. thread_id .. '.')
end
local read = math.min(tonumber(up_to) or t.last_n, t.last_n)
if read > (tonumber(redis.call('HGET', t.key, 'read:' .. agent)) or 0) then
  redis.call('HSET', t.key, 'read:' .. agent, whole(read))
  emit('thread_read', {thread_id = thread_id, status = t.status, agents = #t.agents > 0 and t.agents or nil, agent = agent, up_to = read})
  publish()
end
return redis.call('HGETALL', t.key)
