-- message: the small state of one message, without its content. nil when there is no such message.
-- Uses     key
local function message(id)
  local name = key('msg', id)
  local f = redis.call('HMGET', name, 'n', 'task', 'sender', 'priority', 'state', 'fence', 'attempts', 'holder', 'topic',
    'returned', 'awaiting', 'history', 'expires_at_ms', 'kind', 'thread_id', 'created_at_ms')
  if not f[1] then
    return nil
  end
  return {
    id = id, key = name, n = f[1], task = f[2], sender = f[3], priority = f[4], state = f[5], fence = tonumber(f[6]),
    attempts = tonumber(f[7]), holder = f[8] or '', topic = f[9] or '', returned = f[10] == '1', awaiting = f[11] == '1',
    history = f[12] or '', expires_at_ms = tonumber(f[13]), kind = f[14],
    thread_id = f[15], created_at_ms = tonumber(f[16]),
  }
end
