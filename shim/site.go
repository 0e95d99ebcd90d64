// Where edits are made: a worktree, the repository it belongs to, and git's own folder. It asks no git: that may not be installed.
package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Bases of a file.
const (
	inWorktree   = "worktree"
	inRepository = "repository" // the main checkout: shared by all worktrees of a repository
	inGit        = "git"        // git's own folder
)

// site is the folders that edits are made in, by their real paths.
type site struct {
	worktree   string
	repository string // the main checkout; the worktree itself without git
	git        string // git's folder for the whole repository; empty without git
	top        string // the top of this work tree; empty without git
}

func (s *site) folder(base string) string {
	switch base {
	case inRepository:
		return s.repository
	case inGit:
		return s.git
	}
	return s.worktree
}

// shares says whether files of a base belong to more than this worktree.
func (s *site) shares(base string) bool { return base == inRepository && s.git != "" }

// shown is a path as people are told: from the worktree, if it is in there.
func (s *site) shown(path string) string {
	if within, err := filepath.Rel(s.worktree, path); err == nil && filepath.IsLocal(within) {
		return filepath.ToSlash(within)
	}
	return path
}

// findSite looks at a folder and at the repository it is in. It asks no git: that may not be installed.
func findSite(folder string) (*site, error) {
	worktree, err := filepath.Abs(folder)
	if err == nil {
		worktree, err = filepath.EvalSymlinks(worktree)
	}
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(worktree) || strings.Contains(worktree, "\n") {
		// The records are JSON, and git's list of what it ignores has lines: neither would find the folder again.
		return nil, errors.New("its path has a line break, or is no UTF-8")
	}
	found := &site{worktree: worktree, repository: worktree}
	for up := worktree; ; up = filepath.Dir(up) {
		dotGit := filepath.Join(up, ".git")
		if about, err := os.Stat(dotGit); err == nil {
			if about.IsDir() {
				found.git, found.top, found.repository = dotGit, up, up
			} else if common := commonGit(dotGit); common != "" {
				found.git, found.top = common, up
				found.repository = up
				if filepath.Base(common) == ".git" {
					found.repository = filepath.Dir(common)
				}
			}
			break
		}
		if filepath.Dir(up) == up {
			break
		}
	}
	if found.git != "" && found.repository == found.top {
		// A folder inside of a checkout is a place of its own.
		found.repository = worktree
	}
	return found, nil
}

// isGits says whether a folder is git's own: a .git, anything in one, or a bare repository.
func isGits(folder string) bool {
	if contains(strings.Split(filepath.ToSlash(folder), "/"), ".git") {
		return true
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// commonGit follows a linked worktree's .git file to the folder that all worktrees share.
func commonGit(dotGit string) string {
	text, err := os.ReadFile(dotGit)
	own, isLink := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if err != nil || !isLink {
		return ""
	}
	if !filepath.IsAbs(own) {
		own = filepath.Join(filepath.Dir(dotGit), own)
	}
	common := own
	if text, err := os.ReadFile(filepath.Join(own, "commondir")); err == nil {
		common = strings.TrimSpace(string(text))
		if !filepath.IsAbs(common) {
			common = filepath.Join(own, common)
		}
	}
	real, err := filepath.EvalSymlinks(common)
	if err != nil {
		return ""
	}
	return real
}
