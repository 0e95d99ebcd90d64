-- priorities: most urgent first; the rank of each (0 low … 3 urgent) bounds a pull's `min_priority`.
local priorities = {'urgent', 'high', 'normal', 'low'}
local ranks = {urgent = 3, high = 2, normal = 1, low = 0}
