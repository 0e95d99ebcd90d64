package main

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestABatchComesBackAsItWasWritten(t *testing.T) {
	folder := sessionDir(t.TempDir(), "any / session \x00 id")
	written := &batch{
		receipt: "r:1", task: "backend", messages: []string{"m-1", "m-2"}, transcript: "/a \"b\"/é.jsonl", offset: 1 << 40,
		atMs: 1_800_000_000_000, toolUse: "toolu_1", inside: true, ready: true, current: []string{"req_1"}, found: []string{"m-2"},
		before: true, path: batchFile(folder, "r:1"),
	}
	if err := written.write(); err != nil {
		t.Fatal(err)
	}
	read := readBatches(folder)
	if len(read) != 1 || !reflect.DeepEqual(read[0], written) {
		t.Errorf("%+v", read)
	}
	if about, _ := os.Stat(written.path); runtime.GOOS != "windows" && about.Mode().Perm() != 0o600 {
		t.Errorf("%v", about.Mode())
	}
	written.forget()
	written.forget()
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Error("the empty folder is still there")
	}
}

func TestFilesThatMakeNoSenseAreSweptAwayAndOthersStay(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.json": "", "b.json": "{}", "c.json": `{"receipt":"../x","message_ids":"m"}`, "d.json": `{"receipt":"r","message_ids":""}`,
		"e.json": `{"receipt":"r","message_ids":"m,,n"}`, "f.json": strings.Repeat("[", 10_000), "g.tmp": "being written",
	} {
		put(t, filepath.Join(folder, name), text)
	}
	if read := readBatches(folder); len(read) != 0 {
		t.Errorf("%+v", read)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("%v", left)
	}
	if readBatches("") != nil || readBatches(filepath.Join(folder, "absent")) != nil {
		t.Error("nothing was meant")
	}
}

func TestSessionsThatNeverCameBackAreSwept(t *testing.T) {
	cache := t.TempDir()
	now := time.Now()
	put(t, filepath.Join(cache, "sessions", "old", "r.json"), "{}")
	put(t, filepath.Join(cache, "sessions", "new", "r.json"), "{}")
	os.Chtimes(filepath.Join(cache, "sessions", "old"), now, now.Add(-8*24*time.Hour))
	sweepSessions(cache, now)
	left, _ := os.ReadDir(filepath.Join(cache, "sessions"))
	if len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("%v", left)
	}
}

func TestIDsAreOfTheBrokersGrammar(t *testing.T) {
	for text, want := range map[string]bool{
		"a": true, "m-1": true, "a.b_c:d-e": true, "0": true, "": false, "-a": false, ".": false, "..": false, "a/b": false,
		"a b": false, "é": false, strings.Repeat("a", 193): true, strings.Repeat("a", 194): false,
	} {
		if isID(text) != want {
			t.Errorf("%q", text)
		}
	}
}
