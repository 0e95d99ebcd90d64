package main

import (
	"os"
	"testing"
	"time"
)

func TestTheBreakerOpensLongerEachTimeAndCloses(t *testing.T) {
	cache := t.TempDir()
	now := time.UnixMilli(1_800_000_000_000)
	for _, wait := range []time.Duration{5, 10, 20, 40, 60, 60} {
		one := readBreaker(cache, "http://a", now)
		if one.open(now) {
			t.Fatal("open though its time has passed")
		}
		one.failed(now)
		again := readBreaker(cache, "http://a", now)
		if !again.open(now) || !again.open(now.Add(wait*time.Second-time.Millisecond)) || again.open(now.Add(wait*time.Second)) {
			t.Fatalf("open until %v, %v was meant", again.until.Sub(now), wait*time.Second)
		}
		now = now.Add(wait * time.Second)
	}
	if readBreaker(cache, "http://b", now.Add(-time.Second)).open(now.Add(-time.Second)) {
		t.Error("another address is not meant")
	}
	readBreaker(cache, "http://a", now).reached()
	if one := readBreaker(cache, "http://a", now.Add(-time.Second)); one.known || one.open(now) {
		t.Error("it is not forgotten")
	}
}

func TestABreakerThatMakesNoSenseIsClosed(t *testing.T) {
	cache := t.TempDir()
	now := time.UnixMilli(1_800_000_000_000)
	path := readBreaker(cache, "http://a", now).path
	readBreaker(cache, "http://a", now).failed(now)
	for _, text := range []string{"", "nonsense", "99999999999999999999 1", "1800000001000 0", "1800000001000 -4",
		"1800000061000 1", "1799999300000 9"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		one := readBreaker(cache, "http://a", now)
		if one.open(now) || one.fails != 0 {
			t.Errorf("%q: %+v", text, one)
		}
	}
	none := readBreaker("", "http://a", now)
	none.failed(now)
	none.reached()
}
