// mcp: the broker's MCP server for hosts that start a program instead of calling an address. JSON-RPC lines come in on stdin,
// each goes to /mcp, and what comes back goes out on stdout; nothing is understood here but what carrying needs.
//
// It never dies of the broker: a request that finds none is answered with a refusal that says so, and the next one tries
// again. Every message has a name (Idempotency-Key) that its tries share, so that trying again is harmless.
package main

import (
	"bufio"
	"bytes"
	gocontext "context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	mcpQuiet    = 75 * time.Second // without a byte of an answer, the broker is gone; it says something every 15 s
	mcpPatience = 3 * time.Second  // no new try of a request begins later than this after the first
	mcpOpening  = 20 * time.Second // the same for the first words: hosts give a server up that does not answer those
	mcpLast     = time.Second      // for what is still being asked when the host has left
	mcpPause    = 200 * time.Millisecond
	mcpPauseMax = 15 * time.Second
	mcpAway     = -32000 // the broker could not be reached
	mcpRefused  = -32001 // the broker would not
	mcpNotJSON  = -32700
	mcpInvalid  = -32600

	metaVersion = "io.modelcontextprotocol/protocolVersion"
)

var mcpOptions = []option{
	{name: "--tools", value: "mail|all", text: "mail offers only the mail tools (all)", choices: []string{"mail", "all"}},
}

func init() {
	register(&command{
		name: "mcp", group: "set-up", summary: "Run by an agent's program: its MCP server, on stdin and stdout.",
		usage: "mcp [--tools mail|all]",
		help: helpText("A host that speaks HTTP needs no program: give it the broker's address with /mcp, and the token.\n"+
			"In Claude Code it also wakes an idle session when mail comes; INBOX_MCP_PUSH=off leaves that out.",
			mcpOptions,
			`claude mcp add inbox -- inbox mcp`,
			`INBOX_TASK=backend inbox mcp --tools mail`),
		run: runMcp,
	})
}

// rpc is a JSON-RPC message, as far as it must be understood to be carried.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		URI       string                     `json:"uri"`
		RequestID json.RawMessage            `json:"requestId"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result struct {
		Version string `json:"protocolVersion"`
	} `json:"result"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (m *rpc) isRequest() bool { return m.Method != "" && len(m.ID) > 0 && string(m.ID) != "null" }

// isAnswer says whether it ends a request.
func (m *rpc) isAnswer() bool { return m.Method == "" && len(m.ID) > 0 }

// version is the protocol's, where a request says it itself.
func (m *rpc) version() string {
	var said string
	json.Unmarshal(m.Params.Meta[metaVersion], &said)
	return said
}

// name is what a request of the newer protocol is about, which its headers repeat.
func (m *rpc) name() string {
	switch m.Method {
	case "tools/call", "prompts/get":
		return m.Params.Name
	case "resources/read":
		return m.Params.URI
	}
	return ""
}

type mcpProxy struct {
	ctx   *context
	query string // of the address
	nonce string // of this process: part of every message's name
	host  string // the host's own name of its session; empty if it gives none

	whole  gocontext.Context // until stdin ends
	writes sync.Mutex        // a line goes out whole

	guard   sync.Mutex // what follows
	broker  *client
	http    *http.Client
	version string // what was agreed on at the beginning, in the older protocol
	session string // the name the broker gave this connection then
	running map[string]gocontext.CancelFunc
	told    bool // a stream of what the broker has to say is open, or is being opened
}

func runMcp(ctx *context, args []string) int {
	read, problem := ctx.parse(mcpOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	query := url.Values{}
	if tools := read.get("--tools"); tools != "" {
		query.Set("tools", tools)
	}
	if task := ctx.settings().task.value; task != "" {
		if problem := checkTask(task); problem != nil {
			return ctx.fail(problem)
		}
		query.Set("task", task)
	}
	whole, end := gocontext.WithCancel(gocontext.Background())
	defer end()
	proxy := &mcpProxy{ctx: ctx, nonce: mintID(), host: hostSession(), whole: whole, running: map[string]gocontext.CancelFunc{}}
	if len(query) > 0 {
		proxy.query = "?" + query.Encode()
	}
	go proxy.wake()
	var asking sync.WaitGroup
	lines := bufio.NewReader(ctx.stdin)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			proxy.take(line, proxy.nonce+"-"+strconv.Itoa(number), &asking)
		}
		if err != nil {
			break
		}
	}
	// What was asked last is still answered, if that takes no time; what waits for mail is let go.
	finished := make(chan bool)
	go func() {
		asking.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(mcpLast):
	}
	end()
	<-finished
	return exitDone
}

// hostSession is what the host calls its session, so that its hooks and its tools are one reader of mail.
func hostSession() string {
	for _, name := range []string{"INBOX_SESSION", "CLAUDE_CODE_SESSION_ID"} {
		if given := os.Getenv(name); given != "" {
			return sessionName(given)
		}
	}
	return ""
}

// take sees to one line from the host; requests are asked side by side.
func (p *mcpProxy) take(line []byte, name string, asking *sync.WaitGroup) {
	var said rpc
	if json.Unmarshal(line, &said) != nil && !json.Valid(line) {
		p.fail(nil, mcpNotJSON, &problem{code: "MALFORMED_JSON", message: "This line is not JSON."})
		return
	}
	if line[0] != '{' || said.Method == "" && len(said.ID) == 0 {
		// A batch, which the protocol once had, or no message at all: who sent it would wait for ever.
		p.fail(nil, mcpInvalid, &problem{code: "INVALID_REQUEST", message: "This line is not one message of JSON-RPC.", hint: "Write each on a line of its own."})
		return
	}
	switch {
	case said.Method == "notifications/cancelled":
		p.guard.Lock()
		if stop := p.running[string(said.Params.RequestID)]; stop != nil {
			stop() // hanging up is how the broker is told
		}
		p.guard.Unlock()
		return
	case said.Method == "" && len(said.ID) > 0:
		return // an answer, to nobody: the broker never asks
	}
	doing, stop := gocontext.WithCancel(p.whole)
	id := string(said.ID)
	if said.isRequest() {
		p.guard.Lock()
		p.running[id] = stop
		p.guard.Unlock()
	}
	asking.Add(1)
	go func() {
		defer asking.Done()
		defer stop()
		p.carry(doing, line, name, &said)
		if said.isRequest() {
			p.guard.Lock()
			delete(p.running, id)
			p.guard.Unlock()
		}
	}()
}

// carry asks until there is an answer, or no more time for one.
func (p *mcpProxy) carry(doing gocontext.Context, line []byte, name string, said *rpc) {
	listens := said.Method == "subscriptions/listen"
	patience := mcpPatience
	if said.Method == "initialize" || said.Method == "server/discover" {
		patience = mcpOpening
	}
	began, pause, heard := time.Now(), mcpPause, false
	for {
		answered, reached, why := p.try(doing, line, name, said, heard)
		if answered || doing.Err() != nil {
			return
		}
		if listens && reached {
			pause, heard = mcpPause, true
		}
		// Who listens goes on listening: the broker was restarted, perhaps, and mail that came meanwhile is told at once.
		if !heard && (why.exit != exitBroken || time.Since(began)+pause > patience) {
			p.refuse(said, mcpAway, why)
			return
		}
		select {
		case <-doing.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mcpPauseMax)
		p.forget()
	}
}

// try asks once. answered: the host has its answer, or needs none. reached: the broker began to answer, and broke off.
func (p *mcpProxy) try(
	doing gocontext.Context, line []byte, name string, said *rpc, again bool,
) (answered, reached bool, why *problem) {
	asked, stop := gocontext.WithCancel(doing)
	defer stop()
	response, why := p.post(asked, stop, "POST", line, p.headers(said, name))
	if why != nil {
		return false, false, why
	}
	defer response.Body.Close()
	switch {
	case isAway(response.StatusCode):
		body, _ := io.ReadAll(io.LimitReader(response.Body, answerMax))
		return false, false, refusal(response.StatusCode, body)
	case !said.isRequest():
		return true, true, nil
	case response.StatusCode == http.StatusAccepted:
		p.refuse(said, mcpInvalid, notUnderstood("it was not taken for a request"))
		return true, true, nil
	case strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream"):
		listens := said.Method == "subscriptions/listen"
		eachEvent(response.Body, func(event []byte) bool {
			var told rpc
			json.Unmarshal(event, &told)
			if told.isAnswer() && listens {
				return false // the broker is about to stop; the subscription is not
			}
			if again && strings.HasSuffix(told.Method, "/acknowledged") {
				return true
			}
			answered = answered || told.isAnswer()
			p.say(said, response, event, &told)
			return !answered
		})
		return answered, true, brokeOff()
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return false, true, brokeOff()
	}
	var told struct {
		Version string `json:"jsonrpc"`
		rpc
	}
	switch {
	case json.Unmarshal(body, &told) != nil || told.Version != "2.0" || !told.isAnswer():
		p.refuse(said, mcpRefused, refusal(response.StatusCode, body))
	case string(told.ID) == "null":
		// What could not be read has no number for the broker, but we know whose it is: who sent it would wait for ever.
		p.refuse(said, told.Error.Code, notUnderstood(told.Error.Message))
	default:
		p.say(said, response, body, &told.rpc)
	}
	return true, true, nil
}

func notUnderstood(why string) *problem {
	return &problem{code: "INVALID_REQUEST", message: "The broker could not read this request: " + why + ".",
		hint: "Text is whole characters in UTF-8, and a request's id a text or a whole number."}
}

// headers repeat what the message says of itself, as its version of the protocol wants it.
func (p *mcpProxy) headers(said *rpc, name string) map[string]string {
	p.guard.Lock()
	defer p.guard.Unlock()
	headers := map[string]string{"Idempotency-Key": name}
	if p.host != "" {
		headers["Inbox-Session"] = p.host
	}
	if version := said.version(); version != "" {
		headers["Mcp-Protocol-Version"] = headerValue(version)
		headers["Mcp-Method"] = headerValue(said.Method)
		if about := said.name(); about != "" {
			headers["Mcp-Name"] = headerValue(about)
		}
		return headers
	}
	if said.Method == "initialize" {
		return headers
	}
	if p.version != "" {
		headers["Mcp-Protocol-Version"] = p.version
	}
	if p.session != "" {
		headers["Mcp-Session-Id"] = p.session
	}
	return headers
}

// headerValue writes what no header can carry as the protocol does.
func headerValue(text string) string {
	plain := text == strings.TrimSpace(text) && !strings.HasPrefix(text, "=?base64?")
	for at := 0; at < len(text); at++ {
		plain = plain && text[at] >= ' ' && text[at] <= '~'
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// post makes one request. stop is called when the broker falls silent in the middle of its answer.
func (p *mcpProxy) post(
	asked gocontext.Context, stop gocontext.CancelFunc, method string, body []byte, headers map[string]string,
) (*http.Response, *problem) {
	broker, sending, why := p.connected()
	if why != nil {
		return nil, why
	}
	request, err := http.NewRequestWithContext(asked, method, broker.base+"/mcp"+p.query, bytes.NewReader(body))
	if err != nil {
		return nil, unreachable("This is no address of a broker.", "`inbox config` shows it.")
	}
	request.Header.Set("Authorization", "Bearer "+broker.token)
	request.Header.Set("User-Agent", "inbox/"+version)
	request.Header.Set("Accept", "text/event-stream")
	if method == "POST" {
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	silence := time.AfterFunc(mcpQuiet, stop)
	response, err := sending.Do(request)
	if err != nil {
		silence.Stop()
		return nil, unreachable("The broker at "+withoutSecrets(broker.base)+" cannot be reached.",
			"Is `inboxd serve` running? Nothing was taken: try again.")
	}
	response.Body = &watched{response.Body, silence}
	return response, nil
}

// watched is an answer whose every byte puts off the moment at which the broker counts as gone.
type watched struct {
	io.ReadCloser
	silence *time.Timer
}

func (w *watched) Read(into []byte) (int, error) {
	count, err := w.ReadCloser.Read(into)
	if count > 0 {
		w.silence.Reset(mcpQuiet)
	}
	return count, err
}

func (w *watched) Close() error {
	w.silence.Stop()
	return w.ReadCloser.Close()
}

// connected is the broker as the settings name it now.
func (p *mcpProxy) connected() (*client, *http.Client, *problem) {
	p.guard.Lock()
	defer p.guard.Unlock()
	if p.broker == nil {
		made, why := newClient(p.ctx.settings())
		if why != nil {
			return nil, nil, why
		}
		p.broker = made
		// Without the time limit of a command: a host may listen all day.
		p.http = &http.Client{Transport: made.http.Transport, CheckRedirect: made.http.CheckRedirect}
	}
	return p.broker, p.http, nil
}

// forget makes the next request look where the broker is: one that was restarted may have another port.
func (p *mcpProxy) forget() {
	p.guard.Lock()
	defer p.guard.Unlock()
	p.broker, p.ctx.found = nil, nil
}

// say hands a message of the broker's to the host, and keeps what later requests must repeat.
func (p *mcpProxy) say(to *rpc, response *http.Response, message []byte, told *rpc) {
	switch {
	case to.Method == "initialize" && told.isAnswer():
		p.guard.Lock()
		p.version, p.session = told.Result.Version, response.Header.Get("Mcp-Session-Id")
		p.guard.Unlock()
	case to.Method == "resources/subscribe" && told.isAnswer():
		p.guard.Lock()
		first := !p.told
		p.told = true
		p.guard.Unlock()
		if first {
			go p.hear()
		}
	}
	p.write(message)
}

// hear keeps a stream open on which the older protocol tells that mail came.
func (p *mcpProxy) hear() {
	for pause := mcpPause; p.whole.Err() == nil; {
		asked, stop := gocontext.WithCancel(p.whole)
		response, why := p.post(asked, stop, "GET", nil, p.headers(&rpc{}, mintID()))
		if why == nil {
			if response.StatusCode == http.StatusOK {
				pause = mcpPause
				eachEvent(response.Body, func(event []byte) bool { p.write(event); return true })
			}
			response.Body.Close()
		}
		stop()
		select {
		case <-p.whole.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, mcpPauseMax)
		p.forget()
	}
}

// write puts one message on one line.
func (p *mcpProxy) write(message []byte) {
	var line bytes.Buffer
	if json.Compact(&line, message) != nil {
		return
	}
	line.WriteByte('\n')
	p.writes.Lock()
	defer p.writes.Unlock()
	p.ctx.stdout.Write(line.Bytes())
}

// refuse answers a request that could not be carried out. A tool's call gets a result, as from the broker: that is what a model reads.
func (p *mcpProxy) refuse(said *rpc, code int, why *problem) {
	if said.ID == nil {
		return // nobody waits for an answer
	}
	if said.Method != "tools/call" {
		p.fail(said.ID, code, why)
		return
	}
	text := why.code + ": " + why.message
	told := map[string]string{"code": why.code, "message": why.message}
	if why.hint != "" {
		text += " " + why.hint
		told["hint"] = why.hint
	}
	result := map[string]any{
		"content":           []map[string]string{{"type": "text", "text": text}},
		"structuredContent": map[string]any{"error": told},
		"isError":           true,
	}
	if said.version() != "" {
		result["resultType"] = "complete"
	}
	line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": said.ID, "result": result})
	p.write(line)
}

// fail answers with an error of the protocol that says why.
func (p *mcpProxy) fail(id json.RawMessage, code int, why *problem) {
	type data struct {
		Code string `json:"code"`
		Hint string `json:"hint,omitempty"`
	}
	answer := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Data    data   `json:"data"`
		} `json:"error"`
	}{Version: "2.0", ID: id}
	answer.Error.Code = code
	answer.Error.Message = why.Error()
	answer.Error.Data = data{why.code, why.hint}
	line, _ := json.Marshal(answer)
	p.write(line)
}

func brokeOff() *problem {
	return unreachable("The broker's answer broke off.", "Try again: what it had handed over comes again with the same call.")
}

// eachEvent reads a stream of server-sent events until it ends or take says that it has enough.
func eachEvent(from io.Reader, take func(event []byte) bool) {
	lines := bufio.NewReader(from)
	var data []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		line = bytes.TrimRight(line, "\r\n")
		if rest, found := bytes.CutPrefix(line, []byte("data:")); found {
			data = append(append(data, bytes.TrimPrefix(rest, []byte(" "))...), '\n')
			continue
		}
		if len(line) == 0 && len(data) > 0 {
			if event := bytes.TrimSpace(data); len(event) > 0 && !take(event) {
				return
			}
			data = nil
		}
	}
}
