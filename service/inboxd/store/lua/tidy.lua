#!lua flags=allow-oom
-- tidy: drop a task's timeline rows whose message is gone, and readers that hold nothing and are long silent.
--
-- Returns  the row to go on behind, or '' when there was nothing more to drop
-- Uses     key priorities

local meta, timeline = unpack(KEYS)
local task_id, after, limit, reader_idle_ms = unpack(ARGV)

local last, dropped = '', 0
local rows = redis.call('XRANGE', timeline, after == '' and '-' or '(' .. after, '+', 'COUNT', limit)
for _, row in ipairs(rows) do
  last = row[1]
  if redis.call('EXISTS', key('msg', row[2][2])) == 0 then
    redis.call('XDEL', timeline, row[1])
    dropped = dropped + 1
  end
end
for _, priority in ipairs(priorities) do
  local inbox = key('inbox', task_id, priority)
  if redis.call('EXISTS', inbox) == 1 then
    for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', inbox, 'readers')) do
      local reader = {}
      for i = 1, #flat, 2 do
        reader[flat[i]] = flat[i + 1]
      end
      if reader.pending == 0 and reader.idle > tonumber(reader_idle_ms) then
        redis.call('XGROUP', 'DELCONSUMER', inbox, 'readers', reader.name)
      end
    end
  end
end
return (dropped > 0 and #rows == tonumber(limit)) and last or ''
