// The records of attach: .inbox/attached.json says how to undo it in its worktree, <git>/inbox/shared.json which files several
// worktrees of a repository share. The first may have come with a repository: what it names is checked like everything else.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const attachVersion = 1 // of both files

// attachment is what .inbox/attached.json says.
type attachment struct {
	Version   int           `json:"version"`
	Inbox     string        `json:"inbox"` // of this version
	Task      string        `json:"task"`
	Hosts     []string      `json:"hosts"`
	URL       string        `json:"url"`
	TokenName string        `json:"token_name"` // no secret
	Wake      bool          `json:"wake,omitempty"`
	Remind    bool          `json:"remind,omitempty"`
	AtMs      int64         `json:"at_ms"`
	Trust     []hostTrust   `json:"trust,omitempty"`
	Files     []*fileRecord `json:"files"`
}

type hostTrust struct {
	Host string `json:"host"`
	trustNote
}

// sharedFiles is what <git>/inbox/shared.json says: files that serve several worktrees of a repository.
type sharedFiles struct {
	Version int           `json:"version"`
	Files   []*fileRecord `json:"files"`
}

func attachedFile(worktree string) string { return filepath.Join(worktree, ".inbox", "attached.json") }
func sharedFile(git string) string        { return filepath.Join(git, "inbox", "shared.json") }

// readAttachment is what is attached in a worktree; nil when nothing is.
func readAttachment(worktree string) (*attachment, *problem) {
	var found attachment
	problem := readRecord(attachedFile(worktree), &found, &found.Version)
	if problem != nil || found.Version == 0 {
		return nil, problem
	}
	return &found, nil
}

func readRecord(path string, into any, version *int) *problem {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refuseFile("RECORD_BROKEN", path+" cannot be read: "+reason(err)+".", "It says how to undo `inbox attach`.")
	}
	if json.Unmarshal(text, into) != nil || *version < 1 {
		return refuseFile("RECORD_BROKEN", path+" is not what `inbox attach` wrote.", "Take it away and attach again: what is there is found.")
	}
	if *version > attachVersion {
		return refuseFile("RECORD_NEWER", path+" was written by a newer inbox.", "Use that one.")
	}
	return nil
}

func readShared(at *site) (*sharedFiles, *problem) {
	found := &sharedFiles{}
	if at.git == "" {
		return found, nil
	}
	return found, readRecord(sharedFile(at.git), found, &found.Version)
}

// stillUsing are the other worktrees that a shared file serves; one that is gone needs nothing.
func stillUsing(users []string, own string) []string {
	var others []string
	for _, one := range users {
		if _, err := os.Stat(attachedFile(one)); err == nil && one != own && !contains(others, one) {
			others = append(others, one)
		}
	}
	return others
}

func recordChange(path string, record any, drop bool) ([]*change, *problem) {
	text, err := os.ReadFile(path)
	existed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, refuseFile("RECORD_BROKEN", path+" cannot be read: "+reason(err)+".", "Nothing was changed.")
	}
	after, _ := json.MarshalIndent(record, "", " ")
	after = append(after, '\n')
	if drop && !existed || !drop && existed && bytes.Equal(text, after) {
		return nil, nil
	}
	made := &change{path: path, existed: existed, before: text, modeNow: 0o600, after: after, mode: 0o600, drop: drop}
	if drop && filepath.Base(filepath.Dir(path)) == "inbox" {
		made.empties = []string{filepath.Dir(path)} // git's folder has it for this alone
	}
	return []*change{made}, nil
}
