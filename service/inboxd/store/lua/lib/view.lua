-- view: what a reader is shown of one message, in the order that the store's `MessageRow` reads it.
-- Uses     key
local function view(id)
  return redis.call('HMGET', key('msg', id), 'doc', 'n', 'state', 'hops', 'attempts', 'created_at_ms', 'expires_at_ms',
    'delivered_at_ms', 'delivered_to', 'seen_at_ms', 'holder', 'reason')
end
