-- turn: bring a message into another state and write the step into its history, `<at_ms> <state> <detail>` a line.
-- Uses     clock whole
local function turn(m, state, detail, ...)
  m.state = state
  m.history = m.history .. whole(now) .. ' ' .. state .. ' ' .. detail .. '\n'
  redis.call('HSET', m.key, 'state', state, 'history', m.history, ...)
end
