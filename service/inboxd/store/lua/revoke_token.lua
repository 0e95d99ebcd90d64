#!lua flags=allow-oom
-- revoke_token: from now on this token opens nothing. The word on the tokens' own channel makes every inboxd forget it.
--
-- Returns  1
-- Refuses  TOKEN_UNKNOWN
-- Uses     clock emit publish

local meta, events, tokens = unpack(KEYS)
local now_ms, token_id, events_max = unpack(ARGV)

if redis.call('HDEL', tokens, token_id) == 0 then
  return redis.error_reply('TOKEN_UNKNOWN There is no token ' .. token_id .. '.')
end
redis.call('SPUBLISH', tokens, token_id)
emit('token_revoked', {token_id = token_id})
publish()
return 1
