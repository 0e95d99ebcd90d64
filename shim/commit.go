// Many files changed at once: all of them or none. What says how to undo it is written first; then everything is written beside
// its place and put there by renaming; if one cannot be, those before it go back. What is left by one that was killed is
// known by its name, and goes with the next attach or detach.
package main

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// change is one file to be written or dropped.
type change struct {
	path    string
	existed bool
	before  []byte
	modeNow fs.FileMode
	after   []byte
	mode    fs.FileMode
	drop    bool
	empties []string // folders that go when nothing is in them any more, innermost first

	staged string
}

func (t *target) change() *change {
	made := &change{path: t.path, existed: t.exists, before: t.current, modeNow: t.modeNow, after: t.after, mode: t.mode, drop: t.drop}
	if t.drop && t.record != nil {
		for at := len(t.record.Folders) - 1; at >= 0; at-- {
			made.empties = append(made.empties, filepath.Join(t.site.folder(t.base), filepath.FromSlash(t.record.Folders[at])))
		}
	}
	return made
}

// renameFile can be made to fail by a test.
var renameFile = os.Rename

// commit makes all changes or none, one group after the other: the record that says what to undo is its own group, first when it
// is written and last when it goes, so that whoever is killed has left word. Asked to stop, it first finishes: that takes no time.
func commit(groups ...[]*change) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(asked)
	var folders []string
	var done []*change
	prepare := func(some []*change) error {
		for _, one := range some {
			if one.drop {
				continue
			}
			made, err := makeFolders(filepath.Dir(one.path))
			folders = append(folders, made...)
			if err == nil {
				one.staged, err = stage(one.path, one.after, one.mode)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	place := func(some []*change) error {
		for _, one := range some {
			var err error
			if one.drop {
				err = os.Remove(one.path)
				if errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
			} else if err = renameFile(one.staged, one.path); err == nil {
				one.staged = ""
			}
			if err != nil {
				return err
			}
			done = append(done, one)
		}
		return nil
	}
	for _, some := range groups {
		err := prepare(some)
		if err == nil {
			err = place(some)
		}
		if err != nil {
			for _, one := range some {
				if one.staged != "" {
					os.Remove(one.staged)
				}
			}
			for at := len(done) - 1; at >= 0; at-- {
				done[at].putBack()
			}
			for at := len(folders) - 1; at >= 0; at-- {
				os.Remove(folders[at])
			}
			return err
		}
		for _, one := range some {
			for _, folder := range one.empties {
				os.Remove(folder) // only if nothing is in it
			}
		}
	}
	return nil
}

func (c *change) putBack() {
	if !c.existed {
		os.Remove(c.path)
		return
	}
	makeFolders(filepath.Dir(c.path))
	if staged, err := stage(c.path, c.before, c.modeNow); err == nil {
		os.Rename(staged, c.path)
	}
}

// besides is where a file is written before it is put in its place.
func besides(path string) string {
	return filepath.Join(filepath.Dir(path), ".inbox-"+hashOf([]byte(filepath.Base(path)))[:16])
}

// sweep takes away what one that was killed left beside these files.
func sweep(targets []*target) {
	for _, one := range targets {
		os.Remove(besides(one.path))
	}
}

// sweepRecords is sweep for the records. Their folders are made for them, and go where nothing is in them; one in the worktree
// is known by its mode.
func (s *site) sweepRecords() {
	own := attachedFile(s.worktree)
	os.Remove(besides(own))
	if about, err := os.Stat(filepath.Dir(own)); err == nil && about.Mode().Perm() == ownFolderMode {
		os.Remove(filepath.Dir(own))
	}
	if s.git != "" {
		os.Remove(besides(sharedFile(s.git)))
		os.Remove(filepath.Dir(sharedFile(s.git)))
	}
}

const ownFolderMode = 0o700

// makeFolders makes a folder and those above it, and says which.
func makeFolders(folder string) (made []string, err error) {
	var missing []string
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		missing = append([]string{at}, missing...)
	}
	for _, one := range missing {
		mode := fs.FileMode(0o777)
		if filepath.Base(one) == ".inbox" {
			mode = ownFolderMode
		}
		if err := os.Mkdir(one, mode); err != nil {
			return made, err
		}
		made = append(made, one)
	}
	return made, nil
}

// stage writes a file beside the place it is for; with mode 0, as the account makes new files.
func stage(path string, text []byte, mode fs.FileMode) (string, error) {
	beside := besides(path)
	os.Remove(beside)
	made := mode
	if made == 0 {
		made = 0o666
	}
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, made|0o200)
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil && mode != 0 {
		err = os.Chmod(beside, mode)
	}
	if err != nil {
		os.Remove(beside)
		return "", err
	}
	keepOwner(path, beside)
	return beside, nil
}
