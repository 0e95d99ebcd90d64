-- tally: how much this operation delivered, and how long that had waited: what the script returns of it is for the charts.
-- Uses     clock
local delivered, waited_ms = 0, 0
local function tally(m)
  delivered = delivered + 1
  waited_ms = waited_ms + now - m.created_at_ms
end
