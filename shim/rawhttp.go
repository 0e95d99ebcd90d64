// HTTP/1.1 by hand: one socket, one write, one answer. For the hook and plain http only.
//
// The standard library's client is right for everything else; here a millisecond is paid after every tool call of every
// agent. An answer is taken only if it is whole and unambiguous: what is cut short, too large, of unknown length or
// followed by more than it announced is no answer.
package main

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	headMax     = 64 << 10 // bytes of an answer's status and headers; the ids of a full batch fit
	hookBodyMax = 1 << 20  // bytes of an answer's body
	interimMax  = 4        // 1xx answers before the real one
)

var (
	errAnswer   = errors.New("not an answer that can be used")
	errAddress  = errors.New("not an address of a broker")
	errNotPlain = errors.New("not plain http")
)

// answer is what the broker said to a hook.
type answer struct {
	status   int
	receipt  string // Inbox-Receipt
	task     string // Inbox-Task
	messages string // Inbox-Messages: ids with commas between them
	exit     string // Inbox-Exit
	stream   string // Inbox-Stream
	within   string // Inbox-Print-Within-Ms: how long after the request it may still be printed
	body     []byte
	closes   bool // the connection cannot be used again
}

// address is where plain http goes.
type address struct {
	host   string // name or number, without brackets
	port   string
	header string // as the Host header says it
	prefix string // of every path
}

// plainAddress takes an http address apart; errNotPlain for https.
func plainAddress(url string) (address, error) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found || strings.ContainsFunc(url, func(letter rune) bool { return letter <= ' ' || letter > '~' }) {
		return address{}, errAddress
	}
	if !strings.EqualFold(scheme, "http") {
		return address{}, errNotPlain
	}
	at := address{port: "80"}
	at.header, _, _ = strings.Cut(rest, "/")
	at.prefix = strings.TrimRight(rest[len(at.header):], "/")
	if at.header == "" || strings.ContainsAny(rest, "@?#") {
		return address{}, errAddress
	}
	at.host = at.header
	if colon := strings.LastIndexByte(at.header, ':'); colon > strings.LastIndexByte(at.header, ']') {
		at.host, at.port = at.header[:colon], at.header[colon+1:]
	}
	at.host = strings.TrimSuffix(strings.TrimPrefix(at.host, "["), "]")
	if number, err := strconv.ParseUint(at.port, 10, 16); err != nil || number == 0 || at.host == "" {
		return address{}, errAddress
	}
	return at, nil
}

// loopback says whether the broker is on this machine.
func (at address) loopback() bool {
	return at.host == "localhost" || at.host == "::1" || strings.HasPrefix(at.host, "127.")
}

// lineConn is what is needed of a connection: net.Conn has it, and so has a socket without one.
type lineConn interface {
	io.ReadWriteCloser
	SetDeadline(deadline time.Time) error
}

// wire is one kept-open connection to the broker.
type wire struct {
	at       address
	token    string
	connect  time.Duration // how long opening may take
	deadline time.Time     // of everything
	conn     lineConn
	buffer   []byte // what was read and not yet used is buffer[:filled]
	filled   int
	reached  bool // a connection was made
}

// post sends one request and reads its answer, on the open connection if there is one.
func (w *wire) post(path string, body []byte) (*answer, error) {
	if w.conn == nil {
		if err := w.dial(); err != nil {
			return nil, err
		}
	}
	request := make([]byte, 0, 512+len(w.token)+len(body))
	request = append(request, "POST "...)
	request = append(request, w.at.prefix...)
	request = append(request, path...)
	request = append(request, " HTTP/1.1\r\nHost: "...)
	request = append(request, w.at.header...)
	if w.token != "" {
		request = append(request, "\r\nAuthorization: Bearer "...)
		request = append(request, w.token...)
	}
	request = append(request, "\r\nUser-Agent: inbox/"...)
	request = append(request, version...)
	request = append(request, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	request = strconv.AppendInt(request, int64(len(body)), 10)
	request = append(request, "\r\n\r\n"...)
	request = append(request, body...)
	if _, err := w.conn.Write(request); err != nil {
		w.close()
		return nil, err
	}
	got, err := w.read()
	if err != nil || got.closes {
		w.close()
	}
	return got, err
}

func (w *wire) dial() error {
	limit := min(w.connect, time.Until(w.deadline))
	if limit <= 0 {
		return errAnswer
	}
	conn, err := dialPlain(w.at, limit)
	if err != nil {
		return err
	}
	w.reached = true
	w.conn, w.filled = conn, 0
	if w.buffer == nil {
		w.buffer = make([]byte, 4096)
	}
	return conn.SetDeadline(w.deadline)
}

func (w *wire) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// more reads on; the buffer grows up to a limit.
func (w *wire) more(limit int) error {
	if w.filled == len(w.buffer) {
		if len(w.buffer) >= limit {
			return errAnswer
		}
		grown := make([]byte, min(limit, 2*len(w.buffer)))
		copy(grown, w.buffer)
		w.buffer = grown
	}
	count, err := w.conn.Read(w.buffer[w.filled:])
	w.filled += count
	if count > 0 {
		return nil
	}
	if err == nil {
		err = errAnswer
	}
	return err
}

// take uses up the first bytes of what was read.
func (w *wire) take(count int) {
	copy(w.buffer, w.buffer[count:w.filled])
	w.filled -= count
}

func (w *wire) read() (*answer, error) {
	for range interimMax {
		got, length, err := w.head()
		if err != nil {
			return nil, err
		}
		if got.status/100 == 1 && got.status != 101 {
			continue
		}
		switch {
		case got.status == 204 || got.status == 304:
			if length > 0 {
				return nil, errAnswer
			}
		case length == lengthChunked:
			got.body, err = w.chunks()
		case length < 0:
			return nil, errAnswer
		default:
			got.body, err = w.whole(length)
		}
		if err != nil {
			return nil, err
		}
		if w.filled > 0 { // more than was announced: whatever this is, it is not one answer
			return nil, errAnswer
		}
		return got, nil
	}
	return nil, errAnswer
}

const (
	lengthUnknown = -1
	lengthChunked = -2
)

// head reads the status line and the headers, and says how long the body is.
func (w *wire) head() (*answer, int, error) {
	end := 0
	for {
		if found := bytes.Index(w.buffer[:w.filled], []byte("\r\n\r\n")); found >= 0 {
			end = found
			break
		}
		if w.filled > 8 && !bytes.HasPrefix(w.buffer[:w.filled], []byte("HTTP/1.")) {
			return nil, 0, errAnswer
		}
		if err := w.more(headMax); err != nil {
			return nil, 0, err
		}
	}
	text := string(w.buffer[:end])
	w.take(end + 4)
	line, rest, _ := strings.Cut(text, "\r\n")
	if len(line) < 12 || line[:7] != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return nil, 0, errAnswer
	}
	status, err := strconv.Atoi(line[9:12])
	if err != nil || status < 100 || status > 599 {
		return nil, 0, errAnswer
	}
	got := &answer{status: status, closes: line[7] == '0'}
	length := lengthUnknown
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(line, "\r\n\x00") {
			return nil, 0, errAnswer
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "content-length":
			number, err := strconv.ParseUint(value, 10, 31)
			if err != nil || value[0] == '+' || number > hookBodyMax || length != lengthUnknown && length != int(number) {
				return nil, 0, errAnswer
			}
			length = int(number)
		case "transfer-encoding":
			if !strings.EqualFold(value, "chunked") || length != lengthUnknown {
				return nil, 0, errAnswer
			}
			length = lengthChunked
		case "content-encoding":
			if !strings.EqualFold(value, "identity") {
				return nil, 0, errAnswer
			}
		case "connection":
			got.closes = got.closes || strings.Contains(strings.ToLower(value), "close")
		case "inbox-receipt":
			got.receipt = value
		case "inbox-task":
			got.task = value
		case "inbox-messages":
			got.messages = value
		case "inbox-exit":
			got.exit = value
		case "inbox-stream":
			got.stream = value
		case "inbox-print-within-ms":
			got.within = value
		}
	}
	return got, length, nil
}

// whole reads a body of known length.
func (w *wire) whole(length int) ([]byte, error) {
	for w.filled < length {
		if err := w.more(hookBodyMax); err != nil {
			return nil, err
		}
	}
	body := append([]byte(nil), w.buffer[:length]...)
	w.take(length)
	return body, nil
}

// chunks reads a body that comes in pieces, as a proxy may send it.
func (w *wire) chunks() ([]byte, error) {
	var body []byte
	for {
		line, err := w.line()
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(line, ";")
		length, err := strconv.ParseUint(strings.TrimRight(size, " "), 16, 31)
		if err != nil || len(body)+int(length) > hookBodyMax {
			return nil, errAnswer
		}
		if length == 0 {
			for line != "" { // trailers, up to the empty line
				if line, err = w.line(); err != nil {
					return nil, err
				}
			}
			return body, nil
		}
		piece, err := w.whole(int(length))
		if err != nil {
			return nil, err
		}
		body = append(body, piece...)
		if line, err = w.line(); err != nil || line != "" {
			return nil, errAnswer
		}
	}
}

// line reads up to the next line's end.
func (w *wire) line() (string, error) {
	for {
		if end := bytes.Index(w.buffer[:w.filled], []byte("\r\n")); end >= 0 {
			line := string(w.buffer[:end])
			w.take(end + 2)
			return line, nil
		}
		if w.filled > 1024 && bytes.IndexByte(w.buffer[:1024], '\n') < 0 {
			return "", errAnswer
		}
		if err := w.more(hookBodyMax); err != nil {
			return "", err
		}
	}
}

// until moves the deadline of everything that comes.
func (w *wire) until(deadline time.Time) {
	w.deadline = deadline
	if w.conn != nil {
		w.conn.SetDeadline(deadline)
	}
}

// unreached says whether a failed request means that the broker is down: no connection, or no answer in time.
func (w *wire) unreached(err error) bool {
	var late interface{ Timeout() bool }
	return !w.reached || errors.As(err, &late) && late.Timeout()
}
