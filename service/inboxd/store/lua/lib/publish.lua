-- publish: send out the events of this operation, in one message, a line each. Called once, last.
-- Needs    events
-- Uses     emit
local function publish()
  if #emitted > 0 then
    redis.call('SPUBLISH', events, table.concat(emitted, '\n'))
  end
end
