-- thread_over: whether a thread in this status is over. One that is not there (false) is over too.
local thread_over = {done = true, failed = true, cancelled = true, [false] = true}
