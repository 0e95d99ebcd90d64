-- may_see: whether an agent may read a thread: it has a part in it, or it may claim it: from the pool, or because another let it go.
-- Uses     is_party thread_over
local function may_see(t, agent)
  return is_party(t, agent) or is_party(t, '*') or (t.holder ~= '' and not t.live and not thread_over[t.status])
end
