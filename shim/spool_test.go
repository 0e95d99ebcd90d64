package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func spooling(t *testing.T, url, token string) *broker {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	ctx := &context{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	return &broker{ctx: ctx, client: &client{base: url, token: token}}
}

const spoolToken = "ibx_default.0123456789ab.s3cr3t"

func TestEntriesKeepTheirOrderAndTheirIds(t *testing.T) {
	b := spooling(t, "http://127.0.0.1:1", spoolToken)
	for number := range 20 {
		body := []byte(fmt.Sprintf(`{"body":"%d"}`, number))
		if _, problem := b.keep("backend", fmt.Sprintf("m:%d", 20-number), body); problem != nil {
			t.Fatal(problem)
		}
	}
	entries := b.ours()
	if len(entries) != 20 {
		t.Fatal(len(entries))
	}
	for number, entry := range entries {
		if string(entry.Message) != fmt.Sprintf(`{"body":"%d"}`, number) || entry.MessageID != fmt.Sprintf("m:%d", 20-number) {
			t.Error(number, entry)
		}
		text, _ := os.ReadFile(entry.path)
		if strings.Contains(string(text), "s3cr3t") {
			t.Error("the secret is kept")
		}
		if strings.Contains(filepath.Base(entry.path), ":") {
			t.Error(entry.path)
		}
	}
}

func TestAnEntryComesAfterOneFromTheFuture(t *testing.T) {
	b := spooling(t, "http://127.0.0.1:1", spoolToken)
	if _, problem := b.keep("backend", "first", []byte(`{}`)); problem != nil {
		t.Fatal(problem)
	}
	first := b.ours()[0]
	later := filepath.Join(spoolDir(), fmt.Sprintf("%020d-first.json", time.Now().Add(time.Hour).UnixNano()))
	if err := os.Rename(first.path, later); err != nil {
		t.Fatal(err)
	}
	if _, problem := b.keep("backend", "second", []byte(`{}`)); problem != nil {
		t.Fatal(problem)
	}
	if entries := b.ours(); entries[0].MessageID != "first" || entries[1].MessageID != "second" {
		t.Error(entries[0], entries[1])
	}
}

func TestOnlyTheSameBrokerAndTokenSeeAnEntry(t *testing.T) {
	b := spooling(t, "http://127.0.0.1:1", spoolToken)
	if _, problem := b.keep("backend", "m", []byte(`{}`)); problem != nil {
		t.Fatal(problem)
	}
	for _, one := range []struct {
		url, token string
		seen       int
	}{
		{"http://127.0.0.1:1", spoolToken, 1},
		{"http://localhost:1", spoolToken, 1},
		{"http://127.0.0.1:1", "ibx_default.0123456789ab.renewed", 1},
		{"http://127.0.0.1:2", spoolToken, 0},
		{"http://127.0.0.1:1", "ibx_default.ffffffffffff.s3cr3t", 0},
		{"http://127.0.0.1:1", "", 0},
	} {
		other := &broker{ctx: b.ctx, client: &client{base: one.url, token: one.token}}
		if got := len(other.ours()); got != one.seen {
			t.Errorf("%s %s: %d", one.url, one.token, got)
		}
	}
}

func TestASpoolHasAnEnd(t *testing.T) {
	b := spooling(t, "http://127.0.0.1:1", spoolToken)
	os.MkdirAll(spoolDir(), 0o700)
	for number := range spoolMax {
		os.WriteFile(filepath.Join(spoolDir(), fmt.Sprintf("%020d-x.json", number)), nil, 0o600)
	}
	if _, problem := b.keep("backend", "m", []byte(`{}`)); problem == nil || problem.code != "SPOOL_FULL" {
		t.Error(problem)
	}
}

func TestOnlyOneHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool", "lock")
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			unlock, err := lockSpool(path, 10*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			unlock()
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Error(most.Load())
	}
	unlock, err := lockSpool(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockSpool(path, 0); err != errLocked {
		t.Error(err)
	}
	unlock()
}
