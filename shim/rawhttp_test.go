package main

import (
	"bytes"
	"errors"
	"io"
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

// listening is a peer that does something with the one connection made to it.
func listening(t *testing.T, at string, does func(net.Conn)) address {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Skipf("NOT TESTED: nothing can listen on %s here: %v", at, err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			does(conn)
			conn.Close()
		}
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	return address{host: host, port: port}
}

func TestABrokerIsFoundByNumberAndByName(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "localhost"} {
		t.Run(at, func(t *testing.T) {
			echo := func(conn net.Conn) { io.Copy(conn, io.LimitReader(conn, 300_000)) }
			to := listening(t, strings.Replace(at, "localhost", "127.0.0.1:0", 1), echo)
			if at == "localhost" {
				to.host = at
			}
			conn, err := dialPlain(to, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			sent := bytes.Repeat([]byte("0123456789"), 30_000)
			go conn.Write(sent)
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
				t.Fatal(len(got), err)
			}
		})
	}
}

func TestAConnectionEndsAtItsDeadlineWhateverThePeerDoes(t *testing.T) {
	still := make(chan bool)
	defer close(still)
	for name, peer := range map[string]func(net.Conn){
		"silent": func(net.Conn) { <-still },
		"a drip": func(conn net.Conn) {
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		},
	} {
		for _, does := range []func(lineConn) error{
			func(conn lineConn) error { _, err := io.Copy(io.Discard, conn); return err },
			func(conn lineConn) error { _, err := conn.Write(make([]byte, 64<<20)); return err },
		} {
			conn, err := dialPlain(listening(t, "127.0.0.1:0", peer), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			conn.SetDeadline(began.Add(100 * time.Millisecond))
			err = does(conn)
			var late interface{ Timeout() bool }
			if took := time.Since(began); !errors.As(err, &late) || !late.Timeout() || took < 90*time.Millisecond || took > 2*time.Second {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			conn.Close()
		}
	}
}

func TestABrokerThatIsNotThereIsKnownAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	line := &wire{at: address{host: host, port: port}, connect: 5 * time.Second, deadline: time.Now().Add(5 * time.Second)}
	began := time.Now()
	if _, err := line.post("/", nil); err == nil || !line.unreached(err) || time.Since(began) > 2*time.Second {
		t.Error(err, time.Since(began))
	}
}
