-- place: where a thread stands in its lists: the more urgent first, then by its number. `first_place` is where those of a rank begin.
-- Uses     priorities whole
local function first_place(rank)
  -- 2^50: more than there will be events, and four times as much is still counted exactly.
  return (3 - rank) * 1125899906842624
end
local function place(t)
  return whole(first_place(ranks[t.priority]) + tonumber(t.n))
end
