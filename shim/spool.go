// The spool: mail that could not be sent because the broker was away, kept until a later command reaches it.
//
// <cache>/inbox/spool/<n>-<message id>.json, readable by this account only, in the order of sending. An entry goes only
// after the broker took it, and always under the id it was kept with, so that a crash in between sends nothing twice. One
// process flushes at a time. No token is kept: an entry remembers which broker it is for and the public name of the token
// it was sent with, and waits for a command with that token, so that nobody's mail goes out in somebody else's name.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

const (
	spoolMax     = 1000            // entries; more is a sender that nobody watches
	flushTimeout = 5 * time.Second // of one entry
	lockWait     = 5 * time.Second // for another process that flushes
	lockPause    = 20 * time.Millisecond
)

// kept is one entry.
type kept struct {
	URL       string          `json:"url"`
	TokenName string          `json:"token_name"` // no secret
	Task      string          `json:"task"`
	Message   json.RawMessage `json:"message"`
	MessageID string          `json:"message_id"`
	KeptAtMs  int64           `json:"kept_at_ms"`
	Refused   *keptRefusal    `json:"refused,omitempty"`

	path string
}

type keptRefusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	AtMs    int64  `json:"at_ms"`
}

// spoolDir is where entries are; empty where the platform has no place for them.
func spoolDir() string {
	if cache := cacheDir(); cache != "" {
		return filepath.Join(cache, "spool")
	}
	return ""
}

// keep puts a message into the spool, on the disk before it returns; the path says where.
func (b *broker) keep(task, messageID string, body []byte) (string, *problem) {
	folder := spoolDir()
	if folder == "" {
		return "", &problem{code: "SPOOL_UNUSABLE", message: "There is no cache folder to keep the message in.",
			hint: "Set HOME or XDG_CACHE_HOME.", exit: exitBroken}
	}
	names := spoolNames(folder)
	if len(names) >= spoolMax {
		return "", &problem{code: "SPOOL_FULL", message: fmt.Sprintf("%d messages wait in %s already.", len(names), folder),
			hint: "Start the broker, or take them away.", exit: exitBroken}
	}
	// Later than every other, even when the clock was set back.
	number := time.Now().UnixNano()
	for _, name := range names {
		var before int64
		if fmt.Sscanf(name, "%d-", &before); before >= number {
			number = before + 1
		}
	}
	entry := kept{URL: b.client.base, TokenName: tokenName(b.client.token), Task: task, Message: body,
		MessageID: messageID, KeptAtMs: time.Now().UnixMilli()}
	path := filepath.Join(folder, fmt.Sprintf("%020d-%s.json", number, fileNameOf(messageID)))
	if err := writeDurably(path, append(jsonOf(entry), '\n')); err != nil {
		return "", &problem{code: "SPOOL_UNUSABLE", message: "The message cannot be kept: " + err.Error() + ".",
			hint: "It was not sent.", exit: exitBroken}
	}
	return path, nil
}

// fileNameOf is an id as part of a file's name; Windows knows no colon there.
func fileNameOf(id string) string { return strings.ReplaceAll(id, ":", "_") }

// writeDurably writes a file of this account's own and has it on the disk when it returns.
func writeDurably(path string, text []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".fresh-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return err
	}
	if opened, err := os.Open(folder); err == nil {
		opened.Sync() // not every platform can; the file itself is safe
		opened.Close()
	}
	return nil
}

// spoolNames are the names of the entries, oldest first.
func spoolNames(folder string) []string {
	listing, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var names []string
	for _, one := range listing {
		if name := one.Name(); !one.IsDir() && name[0] >= '0' && name[0] <= '9' && strings.HasSuffix(name, ".json") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// readSpool are the entries, oldest first; a file that is none is left alone.
func readSpool(folder string) []*kept {
	var entries []*kept
	for _, name := range spoolNames(folder) {
		path := filepath.Join(folder, name)
		text, err := os.ReadFile(path)
		entry := &kept{path: path}
		if err != nil || json.Unmarshal(text, entry) != nil || !isTask(entry.Task) || !isID(entry.MessageID) {
			continue
		}
		entries = append(entries, entry)
	}
	return entries
}

// ours are the entries that this command's broker and token may send.
func (b *broker) ours() []*kept {
	folder := spoolDir()
	if folder == "" {
		return nil
	}
	var entries []*kept
	for _, entry := range readSpool(folder) {
		if sameBroker(entry.URL, b.client.base) && entry.TokenName == tokenName(b.client.token) {
			entries = append(entries, entry)
		}
	}
	return entries
}

var errLocked = errors.New("another process has it")

// flush sends what was kept, in order. The problem is that the broker is still away; everything else is settled here.
func (b *broker) flush(wait time.Duration) *problem {
	if len(b.ours()) == 0 {
		return nil
	}
	unlock, err := lockSpool(filepath.Join(spoolDir(), "lock"), wait)
	if err != nil {
		// Whoever has it sends the same messages; a reader need not wait for the end of it.
		return nil
	}
	defer unlock()
	sent := 0
	defer func() {
		if sent > 0 {
			b.ctx.note("sent %s that waited here.", counted(sent, "message"))
		}
	}()
	// Looked at again: another process may have sent them while we waited for the lock.
	for _, entry := range b.ours() {
		status, answer, p := b.post("POST", taskPath(entry.Task, "messages"), []byte(entry.Message), min(b.timeout, flushTimeout))
		switch {
		case p != nil:
			return p
		case status < 300:
			os.Remove(entry.path)
			sent++
		case isAway(status):
			return refusal(status, answer)
		case status == 507:
			return nil // the store is full: it is kept, and this command may be the one that makes room
		case status < 500:
			b.refuse(entry, refusal(status, answer))
		}
	}
	return nil
}

// refuse puts an entry aside that the broker will never take.
func (b *broker) refuse(entry *kept, why *problem) {
	entry.Refused = &keptRefusal{why.code, why.message, why.hint, time.Now().UnixMilli()}
	aside := filepath.Join(filepath.Dir(entry.path), "refused", filepath.Base(entry.path))
	if writeDurably(aside, append(jsonOf(entry), '\n')) != nil {
		return // it is tried, and said, again
	}
	os.Remove(entry.path)
	b.ctx.note("A message for %s that waited here was refused: %s It is in %s.", entry.Task, why.Error(), aside)
}

// lockWithin tries a lock until it is free or the time is up.
func lockWithin(wait time.Duration, try func() (unlock func(), err error)) (func(), error) {
	until := time.Now().Add(wait)
	for {
		unlock, err := try()
		if err == nil || !errors.Is(err, errLocked) || time.Now().After(until) {
			return unlock, err
		}
		time.Sleep(lockPause)
	}
}
