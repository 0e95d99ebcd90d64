-- lease_lost: why this agent may not write to a thread as its worker, or nil. A lease whose time is up is lost, taken over or not.
-- Uses     thread_over whole
local function lease_lost(t, agent, fencing_token)
  if thread_over[t.status] then
    return 'THREAD_STATE The thread ' .. t.id .. ' is ' .. t.status .. ' already.'
  end
  local its_own = t.holder == agent and whole(t.fence) == fencing_token
  if t.live and its_own then
    return nil
  end
  if t.live and t.holder == agent then
    return 'LEASE_LOST This is not the fencing token of the lease that ' .. agent .. ' has on ' .. t.id .. '.'
  end
  if t.live then
    return 'LEASE_LOST The lease on ' .. t.id .. ' is held by ' .. t.holder .. '.'
  end
  if its_own then
    return 'LEASE_LOST The lease on ' .. t.id .. ' has run out.'
  end
  return 'LEASE_LOST ' .. agent .. ' holds no lease on ' .. t.id .. '.'
end
