-- is_party: whether an agent has a part in a thread. `*` is the pool: anybody may claim it.
local function is_party(t, agent)
  for _, one in ipairs(t.agents) do
    if one == agent then
      return true
    end
  end
  return false
end
