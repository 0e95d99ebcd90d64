//go:build unix

// Whose a file is, where files have owners.
package main

import (
	"os"
	"syscall"
)

// keepOwner gives a new file to whom the one in its place belongs, as far as this account may.
func keepOwner(of, fresh string) {
	about, err := os.Stat(of)
	if err != nil {
		return
	}
	if owner, ok := about.Sys().(*syscall.Stat_t); ok && (int(owner.Uid) != os.Geteuid() || int(owner.Gid) != os.Getegid()) {
		os.Chown(fresh, int(owner.Uid), int(owner.Gid))
	}
}

// canKeepOwner says whether keepOwner will: only the system's own account gives files away.
func canKeepOwner(path string) bool {
	about, err := os.Stat(path)
	if err != nil || os.Geteuid() == 0 {
		return true
	}
	owner, ok := about.Sys().(*syscall.Stat_t)
	return !ok || int(owner.Uid) == os.Geteuid()
}
