module inbox

go 1.25
