-- key: the name of a key this script learns only now (the message of a batch, the other task of a link).
-- Same namespace, same slot. keys.py is the schema; a test holds the two together.
-- Needs    meta
local prefix = string.sub(meta, 1, -5)
local function key(row, ...)
  return prefix .. row .. ':' .. table.concat({...}, ':')
end
