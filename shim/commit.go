// Many files changed at once: all of them or none. Everything is written beside its place first and put there by renaming; if
// one cannot be, those before it go back.
package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// commit makes all changes or none: everything is written beside its place first, and what was put in place goes back if one
// of them fails.
func commit(changes []*change) error {
	var folders []string
	undo := func(done []*change) {
		for at := len(done) - 1; at >= 0; at-- {
			one := done[at]
			if one.existed {
				if staged, err := stage(one.path, one.before, one.modeNow); err == nil {
					os.Rename(staged, one.path)
				}
			} else {
				os.Remove(one.path)
			}
		}
		for _, one := range changes {
			if one.staged != "" {
				os.Remove(one.staged)
			}
		}
		for at := len(folders) - 1; at >= 0; at-- {
			os.Remove(folders[at])
		}
	}
	for _, one := range changes {
		if one.drop {
			continue
		}
		made, err := makeFolders(filepath.Dir(one.path))
		folders = append(folders, made...)
		if err == nil {
			one.staged, err = stage(one.path, one.after, one.mode)
		}
		if err != nil {
			undo(nil)
			return err
		}
	}
	for at, one := range changes {
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
			undo(changes[:at])
			return err
		}
	}
	for _, one := range changes {
		for _, folder := range one.empties {
			os.Remove(folder) // only if nothing is in it
		}
	}
	return nil
}

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
			mode = 0o700
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
	beside := filepath.Join(filepath.Dir(path), ".inbox-"+randomHex(8))
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
