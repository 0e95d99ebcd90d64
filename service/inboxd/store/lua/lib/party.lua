-- party: an agent gets a part in a thread, or has one no longer: it stands in their lists, and they may read it.
-- Uses     key is_party place
local function join(t, agent)
  if agent ~= '' and not is_party(t, agent) then
    t.agents[#t.agents + 1] = agent
    redis.call('HSET', t.key, 'agents', table.concat(t.agents, ','))
    redis.call('ZADD', key('agent_threads', agent, t.status), place(t), t.id)
  end
end
local function part(t, agent)
  for i, one in ipairs(t.agents) do
    if one == agent then
      table.remove(t.agents, i)
      redis.call('HSET', t.key, 'agents', table.concat(t.agents, ','))
      redis.call('ZREM', key('agent_threads', agent, t.status), t.id)
      return
    end
  end
end
