-- close_thread: a thread was shifted to its end and its last word said: its lease is given up, nobody waits for an answer in it any
-- more, and its messages may go one day.
-- Needs    leases closed_threads retention_ms
-- Uses     key clock whole party asked_by stop_waiting
local function close_thread(t)
  part(t, '*')
  redis.call('ZREM', leases, t.id)
  redis.call('ZADD', closed_threads, whole(now + tonumber(retention_ms)), t.id)
  redis.call('HSET', t.key, 'closed_at_ms', whole(now))
  redis.call('HDEL', t.key, 'question_id', 'asked_id')
  if t.holder ~= '' then
    redis.call('HSET', t.key, 'lease_released_at_ms', whole(now))
  end
  local settled = {delivered = true, seen = true, expired = true, superseded = true, noted = true}
  for _, row in ipairs(redis.call('XRANGE', key('thread_log', t.id), '-', '+')) do
    local id = row[2][2]
    local f = redis.call('HMGET', key('msg', id), 'state', 'awaiting')
    if f[2] then
      stop_waiting(asked_by(id), id)
    end
    if settled[f[1]] then
      redis.call('PEXPIRE', key('msg', id), retention_ms)
    end
  end
end
