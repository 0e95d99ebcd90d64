package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// ownCache gives a test a home of its own.
func ownCache(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("LocalAppData", home)
	t.Setenv("INBOX_SESSION", "")
	return cacheDir()
}

func leaseFiles(cache string) []string {
	found, _ := filepath.Glob(filepath.Join(cache, "leases", "*", "*"))
	return found
}

func TestALeaseIsKeptForItsBrokerThreadAgentAndSession(t *testing.T) {
	cache := ownCache(t)
	if err := keptLeaseOf("http://localhost:1", "t-1", "backend").keep(&lease{FencingToken: 7, ExpiresAtMs: 9}); err != nil {
		t.Fatal(err)
	}
	if got := keptLeaseOf("http://127.0.0.1:1/", "t-1", "backend"); got.FencingToken != 7 || got.ExpiresAtMs != 9 {
		t.Errorf("%+v", got)
	}
	for _, other := range [][3]string{{"http://localhost:2", "t-1", "backend"}, {"http://localhost:1", "t-2", "backend"}, {"http://localhost:1", "t-1", "frontend"}} {
		if got := keptLeaseOf(other[0], other[1], other[2]); got.FencingToken != 0 {
			t.Errorf("%v has %+v", other, got)
		}
	}
	t.Setenv("INBOX_SESSION", "two")
	if got := keptLeaseOf("http://localhost:1", "t-1", "backend"); got.FencingToken != 0 {
		t.Errorf("another session has %+v", got)
	}
	files := leaseFiles(cache)
	if len(files) != 1 {
		t.Fatal(files)
	}
	for path, mode := range map[string]os.FileMode{files[0]: 0o600, filepath.Dir(files[0]): 0o700 | os.ModeDir} {
		if about, err := os.Stat(path); err != nil || about.Mode() != mode {
			t.Errorf("%s: %v %v", path, about.Mode(), err)
		}
	}
	if !hasLeases("http://127.0.0.1:1", "t-1") || hasLeases("http://127.0.0.1:1", "t-2") {
		t.Error("who has leases")
	}
}

func TestALeaseIsForgottenUnlessThereIsANewerOne(t *testing.T) {
	cache := ownCache(t)
	first := keptLeaseOf("http://u", "t-1", "backend")
	first.keep(&lease{FencingToken: 1})
	later := keptLeaseOf("http://u", "t-1", "backend")
	later.keep(&lease{FencingToken: 2})
	first.forget()
	if got := keptLeaseOf("http://u", "t-1", "backend"); got.FencingToken != 2 {
		t.Errorf("a late loser took the newer lease away: %+v", got)
	}
	later.forget()
	later.forget()
	if left, _ := filepath.Glob(filepath.Join(cache, "leases", "*")); len(left) != 0 {
		t.Error(left)
	}
}

func TestAFileThatIsNoLeaseIsNone(t *testing.T) {
	cache := ownCache(t)
	keptLeaseOf("http://u", "t-1", "backend").keep(&lease{FencingToken: 3})
	for _, text := range []string{"", "{", "[]", `{"fencing_token": -1}`, `{"url":"http://u","thread_id":"t-2","agent":"backend","fencing_token":3}`} {
		if err := os.WriteFile(leaseFiles(cache)[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := keptLeaseOf("http://u", "t-1", "backend"); got.FencingToken != 0 || got.Agent != "backend" {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if err := keptLeaseOf("http://u", "t-1", "backend").keep(&lease{FencingToken: 4}); err != nil || keptLeaseOf("http://u", "t-1", "backend").FencingToken != 4 {
		t.Error("a broken file stays broken", err)
	}
}

func TestLeasesAreWrittenWhole(t *testing.T) {
	ownCache(t)
	var all sync.WaitGroup
	for number := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 50 {
				keptLeaseOf("http://u", "t-"+string(rune('a'+number)), "backend").keep(&lease{FencingToken: int64(number + 1)})
				if got := keptLeaseOf("http://u", "t-"+string(rune('a'+number)), "backend"); got.FencingToken != int64(number+1) {
					t.Errorf("%d: %+v", number, got)
				}
			}
		}()
	}
	all.Wait()
}

func TestOldLeasesAreSweptAway(t *testing.T) {
	cache := ownCache(t)
	for _, thread := range []string{"old", "new"} {
		keptLeaseOf("http://u", thread, "backend").keep(&lease{FencingToken: 1})
	}
	long := time.Now().Add(-2 * sessionStale)
	os.Chtimes(leasesDir("http://u", "old"), long, long)
	sweepLeases(time.Now())
	if len(leaseFiles(cache)) != 1 || keptLeaseOf("http://u", "new", "backend").FencingToken != 1 {
		t.Error(leaseFiles(cache))
	}
}

func TestWithoutACacheFolderNothingIsKeptAndItIsSaid(t *testing.T) {
	ownCache(t)
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	if cacheDir() != "" {
		t.Skip("this platform always has one")
	}
	one := keptLeaseOf("http://u", "t-1", "backend")
	if err := one.keep(&lease{FencingToken: 1}); err == nil {
		t.Error("it was kept nowhere")
	}
	one.forget()
	sweepLeases(time.Now())
}
