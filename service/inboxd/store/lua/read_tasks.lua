#!lua flags=no-writes
-- read_tasks: what is known of these tasks. Those that do not exist come as an empty row.
--
-- Returns  a row of each: {{field, value …} of the task, {peers}, {messages it awaits an answer to}}
-- Uses     key

local meta = unpack(KEYS)
local names = unpack(ARGV)

local rows = {}
for i, task_id in ipairs(cjson.decode(names)) do
  local fields = redis.call('HGETALL', key('task', task_id))
  if #fields == 0 then
    rows[i] = {}
  else
    rows[i] = {fields, redis.call('SMEMBERS', key('peers', task_id)), redis.call('SMEMBERS', key('awaits', task_id))}
  end
end
return rows
