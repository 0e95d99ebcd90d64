package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// speaking is `inbox mcp` with a broker that the test plays.
type speaking struct {
	t     *testing.T
	into  *io.PipeWriter
	lines chan string
	ended chan int
}

func speak(t *testing.T, broker http.HandlerFunc) *speaking {
	server := httptest.NewServer(broker)
	t.Cleanup(server.Close)
	return speakTo(t, server.URL)
}

func speakTo(t *testing.T, url string) *speaking {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "INBOX_URL": url, "INBOX_TOKEN": "ibx_default.0.x",
		"INBOX_TASK": "", "CLAUDE_CODE_SESSION_ID": "", "CLAUDE_CODE_MESSAGING_SOCKET": "", "INBOX_SESSION": "",
	} {
		t.Setenv(name, value)
	}
	stdin, into := io.Pipe()
	from, stdout := io.Pipe()
	made := &speaking{t, into, make(chan string, 100), make(chan int, 1)}
	go func() {
		made.ended <- dispatch([]string{"mcp"}, &context{stdin: stdin, stdout: stdout, stderr: io.Discard})
		stdout.Close()
	}()
	go func() {
		for lines := bufio.NewScanner(from); lines.Scan(); {
			made.lines <- lines.Text()
		}
		close(made.lines)
	}()
	t.Cleanup(func() { into.Close() })
	return made
}

func (s *speaking) say(line string) { io.WriteString(s.into, line+"\n") }

func (s *speaking) hears() string {
	s.t.Helper()
	select {
	case line := <-s.lines:
		return line
	case <-time.After(10 * time.Second):
		s.t.Fatal("no answer came")
		return ""
	}
}

// ends closes stdin and returns what was still said.
func (s *speaking) ends() (rest []string) {
	s.t.Helper()
	s.into.Close()
	for line := range s.lines {
		rest = append(rest, line)
	}
	if code := <-s.ended; code != exitDone {
		s.t.Errorf("it ended with %d", code)
	}
	return rest
}

func asked(r *http.Request) rpc {
	var said rpc
	body, _ := io.ReadAll(r.Body)
	json.Unmarshal(body, &said)
	return said
}

func answerWith(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func TestLinesGoToTheBrokerAndItsAnswersComeBack(t *testing.T) {
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		said := asked(r)
		if r.URL.Path != "/mcp" || r.Header.Get("Authorization") != "Bearer ibx_default.0.x" || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		switch said.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s-1")
			answerWith(w, said.ID, `{"protocolVersion":"2025-11-25"}`)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			answerWith(w, said.ID, fmt.Sprintf("{\n \"seen\":[%q,%q,%q]}", r.Header.Get("Mcp-Protocol-Version"),
				r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Method")+r.Header.Get("Mcp-Name")))
		}
	})
	host.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	if got := host.hears(); got != `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}` {
		t.Error(got)
	}
	host.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	host.say(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
	if got := host.hears(); got != `{"jsonrpc":"2.0","id":"a","result":{"seen":["2025-11-25","s-1",""]}}` {
		t.Error(got)
	}
	host.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"check_inbox","_meta":{"` + metaVersion + `":"2026-07-28"}}}`)
	if got := host.hears(); got != `{"jsonrpc":"2.0","id":2,"result":{"seen":["2026-07-28","","tools/callcheck_inbox"]}}` {
		t.Error(got)
	}
	host.say("nonsense")
	if got := host.hears(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, "-32700") {
		t.Error(got)
	}
	if rest := host.ends(); len(rest) != 0 {
		t.Error(rest)
	}
}

func TestRequestsAreAskedSideBySide(t *testing.T) {
	slow := make(chan bool)
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		said := asked(r)
		if string(said.ID) == "1" {
			<-slow
		}
		answerWith(w, said.ID, "{}")
	})
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	host.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
	if got := host.hears(); !strings.Contains(got, `"id":2`) {
		t.Error(got)
	}
	close(slow)
	if got := host.hears(); !strings.Contains(got, `"id":1`) {
		t.Error(got)
	}
}

func TestAStreamIsHandedOnLineByLine(t *testing.T) {
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		asked(r)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": ping\r\n\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\r\ndata: \"params\":{}}\r\n\r\n")
		io.WriteString(w, "id: 5\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
	})
	host.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`)
	if got := host.hears(); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}` {
		t.Error(got)
	}
	if got := host.hears(); got != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Error(got)
	}
}

func TestALostAnswerIsAskedForAgainUnderTheSameName(t *testing.T) {
	var names []string
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		said := asked(r)
		names = append(names, r.Header.Get("Idempotency-Key"))
		if len(names) == 1 {
			panic(http.ErrAbortHandler)
		}
		answerWith(w, said.ID, "{}")
	})
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	host.hears()
	host.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
	host.hears()
	if len(names) != 3 || names[0] != names[1] || names[1] == names[2] {
		t.Error(names)
	}
}

func TestABrokerThatIsAwayIsARefusalAndNoEnd(t *testing.T) {
	gone, _ := net.Listen("tcp", "127.0.0.1:0")
	address := gone.Addr().String()
	gone.Close()
	host := speakTo(t, "http://"+address)
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	var said struct {
		Result struct {
			ResultType        string
			IsError           bool
			Content           []struct{ Text string }
			StructuredContent struct {
				Error struct{ Code, Message, Hint string }
			}
		}
		Error struct{ Code int }
	}
	json.Unmarshal([]byte(host.hears()), &said)
	result := said.Result
	told := result.StructuredContent.Error
	if !result.IsError || told.Code != "BROKER_UNREACHABLE" || result.Content[0].Text != told.Code+": "+told.Message+" "+told.Hint || result.ResultType != "" {
		t.Errorf("%+v", said)
	}
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	if json.Unmarshal([]byte(host.hears()), &said); !said.Result.IsError || said.Result.ResultType != "complete" {
		t.Errorf("%+v", said)
	}
	// What is no tool's call knows no such result.
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	if json.Unmarshal([]byte(host.hears()), &said); said.Error.Code != mcpAway {
		t.Errorf("%+v", said)
	}
	back, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("somebody else took the port")
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answerWith(w, asked(r).ID, "{}") })}
	go server.Serve(back)
	defer server.Close()
	host.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
	if got := host.hears(); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Error(got)
	}
}

func TestARefusalOfTheBrokersIsAnErrorThatSaysWhy(t *testing.T) {
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		asked(r)
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"ok":false,"error":{"code":"TOKEN_INVALID","message":"This token is unknown.","hint":null,"retry_after_ms":null}}`)
	})
	host.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	if got := host.hears(); got != `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"This token is unknown.","data":{"code":"TOKEN_INVALID"}}}` {
		t.Error(got)
	}
	host.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if rest := host.ends(); len(rest) != 0 {
		t.Error(rest)
	}
}

func TestWhatTheBrokerCannotReadIsAnsweredUnderItsOwnNumber(t *testing.T) {
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		if asked(r).Method == "ping" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
	})
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"\ud83d"}}`)
	if got := host.hears(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"The broker could not read this request: Parse error.`) {
		t.Error(got)
	}
	host.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"\ud83d"}}`)
	if got := host.hears(); !strings.Contains(got, `"id":2`) || !strings.Contains(got, `"isError":true`) {
		t.Error(got)
	}
	host.say(`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`)
	if got := host.hears(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1.5,"error":{"code":-32600,`) {
		t.Error(got)
	}
}

func TestACallThatIsCalledOffHangsUpAndIsNotAnswered(t *testing.T) {
	begun, over := make(chan bool, 1), make(chan bool, 1)
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		said := asked(r)
		if string(said.ID) == "1" {
			begun <- true
			<-r.Context().Done()
			over <- true
			return
		}
		answerWith(w, said.ID, "{}")
	})
	host.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	<-begun
	host.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("the broker still waits")
	}
	host.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := host.hears(); !strings.Contains(got, `"id":2`) {
		t.Error(got)
	}
	if rest := host.ends(); len(rest) != 0 {
		t.Error(rest)
	}
}

func TestWhoListensGoesOnListeningWhenTheBrokerComesBack(t *testing.T) {
	var times atomic.Int32
	host := speak(t, func(w http.ResponseWriter, r *http.Request) {
		said := asked(r)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"}\n\n")
		time := times.Add(1)
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"n\":%d}}\n\n", time)
		switch time {
		case 1: // it stops, and says so
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", said.ID)
		case 2: // it is killed
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	host.say(`{"jsonrpc":"2.0","id":"listen-1","method":"subscriptions/listen","params":{}}`)
	if got := host.hears(); !strings.Contains(got, "acknowledged") {
		t.Error(got)
	}
	for number := 1; number <= 3; number++ {
		if got := host.hears(); !strings.Contains(got, fmt.Sprintf(`{"n":%d}`, number)) {
			t.Error(got)
		}
	}
	if rest := host.ends(); len(rest) != 0 {
		t.Error(rest)
	}
}

func TestWhatNoHeaderCarriesIsWrittenAsTheProtocolWantsIt(t *testing.T) {
	for given, wanted := range map[string]string{
		"check_inbox":   "check_inbox",
		"inbox://a b":   "inbox://a b",
		" x":            "=?base64?IHg=?=",
		"größe":         "=?base64?Z3LDtsOfZQ==?=",
		"=?base64?eA?=": "=?base64?PT9iYXNlNjQ/ZUE/PQ==?=",
		"a\nb":          "=?base64?YQpi?=",
	} {
		if got := headerValue(given); got != wanted {
			t.Errorf("%q: %q, not %q", given, got, wanted)
		}
	}
}

func TestASessionIsToldInTwoLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("no unix sockets here")
	}
	defer listener.Close()
	heard := make(chan string, 2)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			heard <- lines.Text()
		}
	}()
	if err := tellSession(path, "key", notice(2, 1)); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != `{"token":"key","type":"auth"}` {
		t.Error(got)
	}
	words := "inboxd: 2 messages for you in your inbox, 1 of them urgent. Unless you have been shown this mail already, call check_inbox to read it."
	if got := <-heard; got != `{"message":{"content":"`+words+`","role":"user"},"type":"user"}` {
		t.Error(got)
	}
	if tellSession(filepath.Join(t.TempDir(), "nobody"), "key", "x") == nil {
		t.Error("nobody was there, and it went well")
	}
}
