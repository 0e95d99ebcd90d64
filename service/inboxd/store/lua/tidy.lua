#!lua flags=allow-oom
-- tidy: drop a task's timeline rows whose message is gone, and readers that hold nothing and are long silent.
--
-- Returns  1 when more is left to do, else 0
-- Uses     key priorities

local meta, timeline = unpack(KEYS)
local task_id, limit, reader_idle_ms = unpack(ARGV)

local gone = {}
local rows = redis.call('XRANGE', timeline, '-', '+', 'COUNT', limit)
for _, row in ipairs(rows) do
  if redis.call('EXISTS', key('msg', row[2][2])) == 1 then
    break
  end
  gone[#gone + 1] = row[1]
end
for _, id in ipairs(gone) do
  redis.call('XDEL', timeline, id)
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
return (#gone == tonumber(limit)) and 1 or 0
