//go:build unix

// How the hook writes its answer where there are signals.
package main

import (
	"syscall"
	"time"
)

// printHook writes straight to the descriptor: a host that went away is an error here and not the death of the process,
// which is what Go makes of a broken pipe on the standard streams. The stream is closed, because an answer that cannot be
// closed was not written.
func printHook(stream string, text []byte) error {
	descriptor := 1
	if stream == "stderr" {
		descriptor = 2
	}
	for len(text) > 0 {
		count, err := syscall.Write(descriptor, text)
		if err == syscall.EAGAIN {
			time.Sleep(time.Millisecond) // a pipe that does not block; the guard ends this
		}
		if err == syscall.EINTR || err == syscall.EAGAIN {
			continue
		}
		if err != nil {
			return err
		}
		text = text[count:]
	}
	return syscall.Close(descriptor)
}
