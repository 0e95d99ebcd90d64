#!lua
-- change: another title, other peers. `wanted_peers` is '' to leave them, else the whole new list as JSON.
--
-- Returns  1
-- Refuses  TASK_UNKNOWN
-- Uses     clock key declare_task emit publish

local meta, events, tasks, task, peers = unpack(KEYS)
local now_ms, task_id, set_title, title, wanted_peers, events_max = unpack(ARGV)

if redis.call('HEXISTS', task, 'created_at_ms') == 0 then
  return redis.error_reply('TASK_UNKNOWN No task ' .. task_id .. ' was declared.')
end
local changed = false
if set_title == '1' and redis.call('HGET', task, 'title') ~= title then
  redis.call('HSET', task, 'title', title)
  changed = true
end
if wanted_peers ~= '' then
  local wanted = {}
  for _, peer in ipairs(cjson.decode(wanted_peers)) do
    wanted[peer] = true
    declare_task(peer)
    if redis.call('SADD', peers, peer) == 1 then
      redis.call('SADD', key('peers', peer), task_id)
      emit('task_linked', {task = task_id, peer = peer})
    end
  end
  for _, peer in ipairs(redis.call('SMEMBERS', peers)) do
    if not wanted[peer] then
      redis.call('SREM', peers, peer)
      redis.call('SREM', key('peers', peer), task_id)
      emit('task_unlinked', {task = task_id, peer = peer})
    end
  end
end
if changed then
  emit('task_changed', {task = task_id})
end
publish()
return 1
