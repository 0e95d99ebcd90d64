//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

// The spool's lock where the system has one that ends with its process.
package main

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func lockSpool(path string, wait time.Duration) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return lockWithin(wait, func() (func(), error) {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			file.Close()
			return nil, errLocked
		}
		return func() { file.Close() }, nil
	})
}
