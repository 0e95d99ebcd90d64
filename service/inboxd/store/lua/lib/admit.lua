-- admit: may this message be stored? Returns a refusal, or nil and whether it is a duplicate. Writes nothing.
-- Fills in what the rest of the operation needs: `hops` (an answer carries one more than what it answers; a person's word starts
-- again at none) and `recipient`, unless it is for nobody, (created, state, last heard, whether the group is there, then the counts, least urgent first).
-- Needs    hops_max
-- Uses     key
local function admit(spec)
  local known = redis.call('HGET', key('msg', spec.message_id), 'hash')
  if known then
    if known ~= spec.hash then
      return 'MESSAGE_ID_REUSED A different message was already sent with the id ' .. spec.message_id .. '.'
    end
    return nil, true
  end
  if spec.task_id == '' then
    spec.recipient = {}
  else
    spec.recipient = redis.call('HMGET', key('task', spec.task_id), 'created_at_ms', 'state', 'last_heard_ms', 'group:' .. spec.priority,
      'queued:low', 'queued:normal', 'queued:high', 'queued:urgent')
  end
  if spec.task_id ~= '' and not spec.recipient[1] and spec.create ~= '1' then
    return 'TASK_UNKNOWN No task ' .. spec.task_id .. ' was declared.'
  end
  local hops = tonumber(spec.hops)
  if spec.reply_to ~= '' and spec.sender ~= 'user' then
    local before = redis.call('HGET', key('msg', spec.reply_to), 'hops')
    if before then
      hops = math.max(hops, tonumber(before) + 1)
    end
  end
  if hops > tonumber(hops_max) then
    return 'HOPS_EXCEEDED This would be answer number ' .. hops .. ' in a row; at most ' .. hops_max .. ' are carried.'
  end
  spec.hops = hops
  if spec.supersedes ~= '' then
    local old = redis.call('HMGET', key('msg', spec.supersedes), 'sender', 'task')
    if not old[1] or old[2] ~= spec.task_id then
      return 'MESSAGE_UNKNOWN The message to supersede, ' .. spec.supersedes .. ', was not sent to ' .. spec.task_id .. '.'
    end
    if old[1] ~= spec.sender then
      return 'SENDER_FORBIDDEN Only its sender may supersede a message.'
    end
  end
  return nil, false
end
