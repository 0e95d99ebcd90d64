// Leases: the fencing tokens of the threads that agents on this machine have claimed, so that an agent need not carry them.
//
// <cache>/inbox/leases/<hash of broker and thread>/<hash of agent and session>.json, readable by this account only. Each file
// stands for itself and is replaced or removed whole. INBOX_SESSION tells two workers of one agent apart: without it they
// are one, and one writes under the lease of the other. Losing a file loses no work: the lease runs out, or the token is
// given with --fencing-token.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// keptLease is one claim.
type keptLease struct {
	URL          string `json:"url"`
	ThreadID     string `json:"thread_id"`
	Agent        string `json:"agent"`
	Session      string `json:"session"`
	FencingToken int64  `json:"fencing_token"`
	ExpiresAtMs  int64  `json:"expires_at_ms"` // as the broker told; it alone decides

	path string
}

// leasesDir is where the claims of one thread are; empty where the platform has no place for them.
func leasesDir(base, thread string) string {
	cache := cacheDir()
	if cache == "" {
		return ""
	}
	return filepath.Join(cache, "leases", shortHash(brokerName(base)+"\n"+thread))
}

// keptLeaseOf is the claim of an agent in this session; its token is 0 when there is none.
func keptLeaseOf(base, thread, agent string) *keptLease {
	none := &keptLease{URL: brokerName(base), ThreadID: thread, Agent: agent, Session: os.Getenv("INBOX_SESSION")}
	folder := leasesDir(base, thread)
	if folder == "" {
		return none
	}
	none.path = filepath.Join(folder, shortHash(agent+"\n"+none.Session)+".json")
	text, err := os.ReadFile(none.path)
	if err != nil {
		return none
	}
	found := *none
	if json.Unmarshal(text, &found) != nil || found.FencingToken < 1 ||
		found.URL != none.URL || found.ThreadID != thread || found.Agent != agent || found.Session != none.Session {
		return none // half a file, or another of the same hash
	}
	return &found
}

// hasLeases says whether anybody on this machine claimed the thread.
func hasLeases(base, thread string) bool {
	folder := leasesDir(base, thread)
	if folder == "" {
		return false
	}
	_, err := os.Stat(folder)
	return err == nil
}

// keep writes what was granted.
func (k *keptLease) keep(granted *lease) error {
	if k.path == "" {
		return &problem{message: "there is no cache folder; set HOME or XDG_CACHE_HOME"}
	}
	k.FencingToken, k.ExpiresAtMs = granted.FencingToken, granted.ExpiresAtMs
	return writeWhole(k.path, append(jsonOf(k), '\n'))
}

// forget takes the claim away, unless there is a newer one by now.
func (k *keptLease) forget() {
	if k.path == "" || k.FencingToken == 0 {
		return
	}
	if now := keptLeaseOf(k.URL, k.ThreadID, k.Agent); now.FencingToken == k.FencingToken {
		os.Remove(k.path)
		os.Remove(filepath.Dir(k.path)) // with the last one
	}
}

// sweepLeases takes away what was claimed long ago and never finished.
func sweepLeases(now time.Time) {
	if cache := cacheDir(); cache != "" {
		sweepStale(filepath.Join(cache, "leases"), now)
	}
}
