-- clock: the one time of this operation, `now`, in ms: what a test gave, otherwise the server's own.
-- Needs    now_ms
local now = tonumber(now_ms)
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
