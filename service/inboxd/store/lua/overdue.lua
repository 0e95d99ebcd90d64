#!lua flags=no-writes
-- overdue: the tasks of a namespace with a deadline that has passed, most overdue first, and what time it is.
--
-- Returns  {now, {task ids}}
-- Uses     clock whole

local meta, due = unpack(KEYS)
local now_ms, limit = unpack(ARGV)

return {whole(now), redis.call('ZRANGE', due, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, limit)}
