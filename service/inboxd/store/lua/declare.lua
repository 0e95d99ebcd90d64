#!lua
-- declare: bring a task into being, with its title and peers. Saying it again changes only what is said.
--
-- Before   any
-- After    the task is there; it and its peers know each other, a peer not heard of yet is declared too
-- Returns  1 when the task was new, else 0
-- Uses     clock key declare_task emit publish

local meta, events, tasks, task = unpack(KEYS)
local now_ms, task_id, title, wanted_peers, events_max = unpack(ARGV)

local new = declare_task(task_id)
if title ~= '' and redis.call('HGET', task, 'title') ~= title then
  redis.call('HSET', task, 'title', title)
  if not new then
    emit('task_changed', {task = task_id})
  end
end
for _, peer in ipairs(cjson.decode(wanted_peers)) do
  declare_task(peer)
  if redis.call('SADD', key('peers', task_id), peer) == 1 then
    redis.call('SADD', key('peers', peer), task_id)
    emit('task_linked', {task = task_id, peer = peer})
  end
end
publish()
return new and 1 or 0
