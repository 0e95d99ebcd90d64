-- set_due: note when a task must next be looked at: its first hold or ttl to run out, or its falling idle.
-- Needs    due idle_after_ms
-- Uses     key whole
local function set_due(task_id)
  local task = key('task', task_id)
  local first
  for _, row in ipairs({'holds', 'ttls'}) do
    local head = redis.call('ZRANGE', key(row, task_id), 0, 0, 'WITHSCORES')
    if head[2] and (not first or tonumber(head[2]) < first) then
      first = tonumber(head[2])
    end
  end
  local seen = redis.call('HMGET', task, 'state', 'last_heard_ms', 'due_ms')
  if seen[1] == 'active' then
    local idle = tonumber(seen[2]) + tonumber(idle_after_ms)
    if not first or idle < first then
      first = idle
    end
  end
  if first then
    if seen[3] ~= whole(first) then
      redis.call('ZADD', due, whole(first), task_id)
      redis.call('HSET', task, 'due_ms', whole(first))
    end
  elseif seen[3] then
    redis.call('ZREM', due, task_id)
    redis.call('HDEL', task, 'due_ms')
  end
end
