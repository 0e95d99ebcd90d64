package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestAddressesAreTakenApart(t *testing.T) {
	for url, want := range map[string]address{
		"http://127.0.0.1:8420":    {"127.0.0.1", "8420", "127.0.0.1:8420", ""},
		"http://[::1]:8420/":       {"::1", "8420", "[::1]:8420", ""},
		"HTTP://broker/some/path/": {"broker", "80", "broker", "/some/path"},
		"http://[fe80::1]":         {"fe80::1", "80", "[fe80::1]", ""},
	} {
		if got, err := plainAddress(url); err != nil || got != want {
			t.Errorf("%s: %+v %v", url, got, err)
		}
	}
	for _, url := range []string{"", "x", "http://", "http:///x", "http://a:b", "http://a:0", "http://a:99999", "http://u:p@a",
		"http://a b", "http://a\r\nX: y", "http://a?x", "http://é"} {
		if got, err := plainAddress(url); err == nil {
			t.Errorf("%s: %+v", url, got)
		}
	}
	if _, err := plainAddress("https://a"); err != errNotPlain {
		t.Error(err)
	}
}

// answered is what is understood of an answer that comes in two pieces.
func answered(t testing.TB, text string, cut int) (*answer, error) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		for _, piece := range []string{text[:cut], text[cut:]} {
			if piece != "" {
				theirs.Write([]byte(piece))
			}
		}
		theirs.Close()
	}()
	line := &wire{conn: ours, buffer: make([]byte, 64), deadline: time.Now().Add(5 * time.Second)}
	ours.SetDeadline(line.deadline)
	return line.read()
}

func TestAnAnswerIsTheSameWhereverTheNetworkCutsIt(t *testing.T) {
	text := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nINBOX-RECEIPT:  r-1 \r\ninbox-exit: 2\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"5\r\nhello\r\n6;x\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
	for cut := range len(text) {
		got, err := answered(t, text, cut)
		if err != nil || got.status != 200 || string(got.body) != "hello world" || got.receipt != "r-1" || got.exit != "2" {
			t.Fatalf("cut at %d: %+v %v", cut, got, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "HTTP/1.0 200\r\n\r\n",
		"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "HTTP/1.1 999 \r\n: \r\n\r\n", "\r\n\r\n",
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		got, err := answered(t, text, abs(cut)%(len(text)+1))
		if err == nil && (got.status < 200 || len(got.body) > hookBodyMax || !strings.Contains(text, "HTTP/1.")) {
			t.Fatalf("%+v", got)
		}
	})
}
