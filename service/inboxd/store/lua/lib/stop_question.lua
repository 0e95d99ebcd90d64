-- stop_question: an open question of a thread is answered, or no longer asked: whoever asked it waits no more. `field` says which:
-- `question_id` is what its worker asks, `asked_id` what its worker is asked.
-- Uses     asked_by stop_waiting
local function stop_question(t, field)
  if t[field] == '' then
    return
  end
  local asker = asked_by(t[field])
  if asker ~= '' then
    stop_waiting(asker, t[field])
  end
  redis.call('HDEL', t.key, field)
  t[field] = ''
end
