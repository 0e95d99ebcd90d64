// What one hook leaves for the next: a file for each batch that was printed, until the transcript shows its fate.
//
// <cache>/inbox/sessions/<hash of the session>/<receipt>.json, readable by this account only. Each file stands for
// itself and is replaced or removed whole, so hooks of one session may run side by side. No message text is ever kept.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	batchesMax   = 32                 // files of one session that one hook looks at
	sessionStale = 7 * 24 * time.Hour // a session's folder untouched for this long is swept away
	sweepMax     = 256                // folders that one sweep looks at
)

// batch is one printed batch and how far its transcript was read.
type batch struct {
	receipt    string
	task       string
	messages   []string // ids
	transcript string   // path; empty when the host has none that can be judged
	offset     int64    // bytes of the transcript that are already judged
	atMs       int64    // when it was printed

	toolUse string   // id of the tool call at which it was printed; empty for other events
	before  bool     // it was printed before that tool ran, as the reason why it did not
	inside  bool     // offset is in the middle of a line
	ready   bool     // the line that must precede the model's next answer was there
	current []string // answers of the model that were begun before the batch was printed
	found   []string // ids that were found so far
	path    string   // of its file
}

var batchFields = []wanted{
	{"receipt", 256, cutAll},
	{"task", 256, cutAll},
	{"message_ids", 1 << 20, cutAll},
	{"transcript_path", 8192, cutAll},
	{"offset", wordMax, cutAll},
	{"at_ms", wordMax, cutAll},
	{"tool_use_id", 1024, cutAll},
	{"inside", wordMax, cutAll},
	{"ready", wordMax, cutAll},
	{"current", 1 << 16, cutAll},
	{"found", 1 << 20, cutAll},
	{"before", wordMax, cutAll},
}

// cacheDir is where this account's hooks remember things; empty where the platform has no place for it.
func cacheDir() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "inbox")
}

// sessionDir is where the batches of one session are; empty when nothing can be remembered.
func sessionDir(cache, session string) string {
	if cache == "" || session == "" {
		return ""
	}
	return filepath.Join(cache, "sessions", shortHash(session))
}

// shortHash is a file name for any text.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// readBatches are the batches of a session that are still in question. Files that make no sense are removed.
func readBatches(folder string) []*batch {
	if folder == "" {
		return nil
	}
	listing, err := os.Open(folder)
	if err != nil {
		return nil
	}
	names, _ := listing.Readdirnames(2 * batchesMax)
	listing.Close()
	var batches []*batch
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") || len(batches) == batchesMax {
			continue
		}
		path := filepath.Join(folder, name)
		if one := readBatch(path); one != nil {
			batches = append(batches, one)
		} else {
			os.Remove(path)
		}
	}
	return batches
}

func readBatch(path string) *batch {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	values, err := scanObject(file, batchFields, make([]byte, 4096))
	if err != nil {
		return nil
	}
	number := func(at int) int64 {
		parsed, _ := strconv.ParseInt(string(values[at]), 10, 64)
		return parsed
	}
	list := func(at int) []string {
		if text := textOf(values[at]); text != "" {
			return strings.Split(text, ",")
		}
		return nil
	}
	one := &batch{
		receipt:    textOf(values[0]),
		task:       textOf(values[1]),
		messages:   list(2),
		transcript: textOf(values[3]),
		offset:     max(0, number(4)),
		atMs:       number(5),
		toolUse:    textOf(values[6]),
		inside:     string(values[7]) == "true",
		ready:      string(values[8]) == "true",
		current:    list(9),
		found:      list(10),
		before:     string(values[11]) == "true",
		path:       path,
	}
	if !isID(one.receipt) || len(one.messages) == 0 {
		return nil
	}
	for _, id := range one.messages {
		if !isID(id) {
			return nil
		}
	}
	return one
}

// write puts the batch's file in its place.
func (b *batch) write() error {
	text := append([]byte(nil), `{"receipt":`...)
	text = appendQuoted(text, b.receipt)
	field := func(name, value string) {
		text = append(text, `,"`+name+`":`...)
		text = appendQuoted(text, value)
	}
	word := func(name, value string) {
		text = append(text, `,"`+name+`":`+value...)
	}
	field("task", b.task)
	field("message_ids", strings.Join(b.messages, ","))
	field("transcript_path", b.transcript)
	word("offset", strconv.FormatInt(b.offset, 10))
	word("at_ms", strconv.FormatInt(b.atMs, 10))
	field("tool_use_id", b.toolUse)
	word("inside", strconv.FormatBool(b.inside))
	word("ready", strconv.FormatBool(b.ready))
	field("current", strings.Join(b.current, ","))
	field("found", strings.Join(b.found, ","))
	word("before", strconv.FormatBool(b.before))
	return writeWhole(b.path, append(text, "}\n"...))
}

// forget removes the batch's file, and the session's folder with the last one.
func (b *batch) forget() {
	os.Remove(b.path)
	os.Remove(filepath.Dir(b.path))
}

// batchFile is the name of a batch's file; a receipt is of a grammar that no folder can be left with.
func batchFile(folder, receipt string) string {
	return filepath.Join(folder, strings.ReplaceAll(receipt, ":", "_")+".json")
}

// isID says whether this is an id of ours: letters, digits and ._:- with a letter or digit first.
func isID(text string) bool {
	if text == "" || len(text) > 193 {
		return false
	}
	for at := 0; at < len(text); at++ {
		if !isLetterOrDigit(text[at]) && (at == 0 || !isIDMark(text[at])) {
			return false
		}
	}
	return true
}

func isLetterOrDigit(letter byte) bool {
	return letter >= '0' && letter <= '9' || letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z'
}

func isIDMark(letter byte) bool {
	return letter == '.' || letter == '_' || letter == ':' || letter == '-'
}

// writeWhole writes a file that is there whole or not at all, for this account only.
func writeWhole(path string, text []byte) error {
	fresh := path + "." + strconv.Itoa(os.Getpid()) + ".tmp"
	for try := 0; ; try++ {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			if os.IsNotExist(err) && try == 0 {
				continue // another hook took the empty folder away
			}
			return err
		}
		_, err = file.Write(text)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err == nil {
			err = os.Rename(fresh, path)
		}
		if err != nil {
			os.Remove(fresh)
		}
		return err
	}
}

// sweepSessions takes away what sessions left that never came back.
func sweepSessions(cache string, now time.Time) { sweepStale(filepath.Join(cache, "sessions"), now) }

// sweepStale takes away the folders in one that nobody has touched for long.
func sweepStale(root string, now time.Time) {
	listing, err := os.Open(root)
	if err != nil {
		return
	}
	entries, _ := listing.ReadDir(sweepMax)
	listing.Close()
	for _, entry := range entries {
		if about, err := entry.Info(); err == nil && now.Sub(about.ModTime()) > sessionStale {
			os.RemoveAll(filepath.Join(root, entry.Name()))
		}
	}
}
