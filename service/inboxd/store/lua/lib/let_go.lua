-- let_go: a settled message stays readable for `retention_ms`, counted from now; one of a thread, from the end of the thread.
-- A message may name a thread and not be of it: one sent before there was any, or one of a broadcast.
-- Needs    retention_ms
-- Uses     key thread_over
local function let_go(m)
  local open = m.thread_id and not thread_over[redis.call('HGET', key('thread', m.thread_id), 'status')]
  local of_it = open and redis.call('XRANGE', key('thread_log', m.thread_id), m.n .. '-0', m.n .. '-0')[1]
  if not of_it then
    redis.call('PEXPIRE', m.key, retention_ms)
  end
end
