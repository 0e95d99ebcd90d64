-- thread: what operations need to know of one thread. nil when there is none.
-- Uses     key clock
local function thread(id)
  local name = key('thread', id)
  local f = redis.call('HMGET', name, 'status', 'created_by', 'creator', 'assigned_to', 'priority', 'agents', 'fence', 'lease_agent',
    'lease_expires_at_ms', 'lease_released_at_ms', 'claims', 'opening_id', 'question_id', 'messages', 'last_n', 'last_sender', 'n', 'lease_expired', 'asked_id')
  if not f[1] then
    return nil
  end
  local t = {
    id = id, key = name, status = f[1], created_by = f[2], creator = f[3], assigned_to = f[4], priority = f[5], agents = {},
    fence = tonumber(f[7]), holder = f[8] or '', expires_at_ms = tonumber(f[9]) or 0, claims = f[11] or '', opening_id = f[12],
    question_id = f[13] or '', messages = tonumber(f[14]), last_n = tonumber(f[15]), last_sender = f[16], n = f[17], lease_expired = f[18] == '1',
    asked_id = f[19] or '',
  }
  for agent in string.gmatch(f[6], '[^,]+') do
    t.agents[#t.agents + 1] = agent
  end
  -- A lease is live until its time is up or it was given up with the thread. Once it was said that its time is up, no clock that is
  -- set back makes it live again.
  t.live = t.holder ~= '' and not f[10] and not t.lease_expired and t.expires_at_ms > now
  return t
end
