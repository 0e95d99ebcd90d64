//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

// The spool's lock where the system has none that ends with its process: a file that only one can create. One left
// behind by a process that died is taken away when it is old; at worst two flush at once, and the ids keep that harmless.
package main

import (
	"os"
	"path/filepath"
	"time"
)

const lockStale = time.Minute

func lockSpool(path string, wait time.Duration) (func(), error) {
	path += ".held"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return lockWithin(wait, func() (func(), error) {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			file.Close()
			return func() { os.Remove(path) }, nil
		}
		if !os.IsExist(err) {
			return nil, err
		}
		if about, err := os.Stat(path); err == nil && time.Since(about.ModTime()) > lockStale {
			os.Remove(path)
		}
		return nil, errLocked
	})
}
