-- batch: the messages a settling names, as {message, ours}. By receipt (of it only the ids given, if any), a message is ours while its fence is the one it was
-- handed over with; by ids, while `session` is the last that held it. A message named twice counts once. Returns nil and a refusal for an unknown task or receipt.
-- Needs    task task_id session receipt
-- Uses     key message
local function batch(ids)
  if redis.call('HEXISTS', task, 'created_at_ms') == 0 then
    return nil, 'TASK_UNKNOWN No task ' .. task_id .. ' was declared.'
  end
  local found = {}
  if receipt ~= '' then
    local record = redis.call('LRANGE', key('pull', task_id, receipt), 0, -1)
    if #record == 0 then
      return nil, 'RECEIPT_UNKNOWN No batch of ' .. task_id .. ' was handed over under the receipt ' .. receipt .. '.'
    end
    local only = #ids > 0 and {} or nil
    for _, id in ipairs(ids) do
      only[id] = true
    end
    for i = 3, #record do
      local fence, id = string.match(record[i], '^(%d+) (.+)$')
      if not only or only[id] then
        local m = message(id)
        found[#found + 1] = {id = id, m = m, session = record[1], ours = m ~= nil and m.task == task_id and m.fence == tonumber(fence)}
      end
    end
    return found
  end
  local named = {}
  for _, id in ipairs(ids) do
    if not named[id] then
      named[id] = true
      local m = message(id)
      local to = m and m.holder
      if m and (m.state == 'delivered' or m.state == 'seen') then
        to = redis.call('HGET', m.key, 'delivered_to')
      end
      found[#found + 1] = {id = id, m = m, session = session, ours = m ~= nil and m.task == task_id and to == session}
    end
  end
  return found
end
