-- whole: a number as its digits. tostring would turn large ones into 1e+14.
local function whole(number)
  return string.format('%.0f', number)
end
