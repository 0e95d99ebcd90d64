-- asked_by: the task that said a message and would get its answer, '' when there is none.
-- Uses     key
local function asked_by(message_id)
  local sender = redis.call('HGET', key('msg', message_id), 'sender') or ''
  return sender == 'user' and 'user' or string.match(sender, '^task:(.+)$') or ''
end
