#!lua
-- create_token: remember a token by its id; the secret itself is not stored. Opens the namespace, and the task the token speaks for.
--
-- Returns  1
-- Uses     clock whole declare_task emit publish

local meta, events, tasks, tokens = unpack(KEYS)
local now_ms, token_id, record, task_id, events_max = unpack(ARGV)

redis.call('HSETNX', meta, 'created_at_ms', whole(now))
declare_task('user')
if task_id ~= '' then
  declare_task(task_id)
end
if redis.call('HSETNX', tokens, token_id, record) == 1 then
  local token = cjson.decode(record)
  emit('token_created', {token_id = token_id, role = token.role, agent = task_id ~= '' and task_id or nil, label = token.label})
end
publish()
return 1
