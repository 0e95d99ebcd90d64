-- pending: how many messages of a task wait to be handed over; with a rank, only those at or above it.
-- Uses     key priorities
local function pending(task_id, min_rank)
  local counts = redis.call('HMGET', key('task', task_id), 'queued:low', 'queued:normal', 'queued:high', 'queued:urgent')
  local total = 0
  for rank = min_rank or 0, 3 do
    total = total + (tonumber(counts[rank + 1]) or 0)
  end
  return total
end
