module inboxd/bench/load

go 1.25
