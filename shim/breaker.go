// The circuit breaker: a broker that could not be reached is not tried again for a while, so that a broker that is down
// costs an agent one short wait and not one after every tool call.
//
// One small file for each address, in the account's cache folder. Losing it, or two hooks writing it at once, does no harm.
package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	openFirst   = 5 * time.Second  // after the first failure
	openMax     = 60 * time.Second // it doubles up to this
	openForgets = 10 * time.Minute // a failure this long ago does not count towards the doubling
)

type breaker struct {
	path  string // empty: no cache folder, so nothing is remembered
	known bool   // the file is there
	fails int    // in a row
	until time.Time
}

// readBreaker is what was remembered of an address.
func readBreaker(cache, url string, now time.Time) *breaker {
	if cache == "" {
		return &breaker{}
	}
	found := &breaker{path: filepath.Join(cache, "breakers", shortHash(url))}
	text, err := os.ReadFile(found.path)
	if err != nil {
		return found
	}
	found.known = true
	until, fails, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	untilMs, _ := strconv.ParseInt(until, 10, 64)
	found.until = time.UnixMilli(untilMs)
	found.fails, _ = strconv.Atoi(fails)
	// A clock that was set back, or a file that is nonsense, must not silence the hooks.
	if found.fails < 1 || found.until.After(now.Add(openMax)) || now.After(found.until.Add(openForgets)) {
		found.fails, found.until = 0, time.Time{}
	}
	return found
}

// open says whether to leave the broker alone for now.
func (b *breaker) open(now time.Time) bool {
	return now.Before(b.until)
}

// failed remembers that the broker could not be reached.
func (b *breaker) failed(now time.Time) {
	if b.path == "" {
		return
	}
	b.fails = min(b.fails+1, 16)
	b.until = now.Add(min(openFirst<<(b.fails-1), openMax))
	b.known = true
	writeWhole(b.path, []byte(strconv.FormatInt(b.until.UnixMilli(), 10)+" "+strconv.Itoa(b.fails)+"\n"))
}

// reached forgets all of it.
func (b *breaker) reached() {
	if b.known {
		os.Remove(b.path)
	}
}
