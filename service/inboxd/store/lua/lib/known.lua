-- known: whether a write under this id was done before, and `remember` that it is done now. A list is text, newest last, of at most 20 ids.
local function known(list, id)
  return string.find(' ' .. list .. ' ', ' ' .. id .. ' ', 1, true) ~= nil
end
local function remember(list, id)
  local ids = {}
  for one in string.gmatch(list, '%S+') do
    ids[#ids + 1] = one
  end
  ids[#ids + 1] = id
  return table.concat(ids, ' ', math.max(1, #ids - 19))
end
