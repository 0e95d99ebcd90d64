#!lua flags=no-writes
-- show: one message with its whole history. Looking consumes nothing.
--
-- Returns  {the message, its history, its sender, its task}
-- Refuses  MESSAGE_UNKNOWN
-- Uses     key view

local meta, msg = unpack(KEYS)
local message_id = unpack(ARGV)

local f = redis.call('HMGET', msg, 'history', 'sender', 'task')
if not f[1] then
  return redis.error_reply('MESSAGE_UNKNOWN There is no message ' .. message_id .. '.')
end
return {view(message_id), f[1], f[2], f[3]}
