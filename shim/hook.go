// `inbox hook`: what an agent's program runs after every tool call. It carries the host's input to the broker and the
// broker's answer to the host, byte for byte, and knows nothing of either.
//
// The rules of this room. It never keeps the agent waiting: one request when there is no mail, a deadline for everything,
// and a broker that is down is left alone. It never fails: exit 0 and not a byte on stdout unless there is an answer to
// print. It never forwards what a tool was given or gave back. It prints first, then acks: a crash between the two is
// settled by the transcript (transcript.go), a crash before is settled by the hold that runs out.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	hookConnect  = 250 * time.Millisecond // opening a connection
	hookDeadline = time.Second            // the host's input, the request and its answer together
	hookPrint    = time.Second            // writing the answer out
	hookAck      = time.Second            // the ack, after the answer was printed
	hookFresh    = 10 * time.Second       // after which no mail is printed, unless the broker says when
	lingerMax    = time.Hour
	exitWake     = 2 // wakes a host that asked for it; only when the broker says so

	beforeTool = "PreToolUse" // the event at which an answer takes the place of a tool's result, in transcripts that are judged
)

// hookFields are all that is ever taken from a host's input.
var hookFields = []wanted{
	{"hook_event_name", 256, cutAll},
	{"session_id", 1024, cutAll},
	{"transcript_path", 8192, cutAll},
	{"cwd", 8192, cutAll},
	{"tool_name", 1024, cutAll},
	{"tool_use_id", 1024, cutAll},
	{"agent_id", 1024, cutAll},
	{"agent_type", 1024, cutAll},
	{"stop_hook_active", 64, cutAll},
	{"last_assistant_message", 8192, cutHead},
	{"source", 256, cutAll},
	{"reason", 1024, cutAll},
	{"turn_id", 1024, cutAll},
	{"timestamp", 256, cutAll},
	{"permission_mode", 256, cutAll},
	{"message", 1024, cutTail},
	{"notification_type", 256, cutAll},
}

const ( // places in hookFields
	fieldEvent      = 0
	fieldSession    = 1
	fieldTranscript = 2
	fieldCwd        = 3
	fieldToolUse    = 5
)

func init() {
	register(&command{
		name:    "hook",
		group:   "set-up",
		summary: "Run by an agent's program at its hooks: hand over the mail that waits.",
		calm:    true,
		usage:   "hook [HOST] [--remind|--wake] [--linger MS] [--log FILE] [--deadline-ms MS]",
		help: `
Reads the host's hook input on stdin and prints what the host should be told, if anything. HOST is claude, codex,
gemini, qwen or copilot; without it the broker finds out. It ends with 0 whatever happens, and with 2 only where that
wakes a host.

flags
  --remind          say only that mail waits, not what is in it
  --wake            for a hook that runs in the background: mail goes to stderr with exit 2, which wakes the host
  --linger MS       wait this long for mail before saying that there is none
  --log FILE        add a line for each call: time, host, event, what came of it, milliseconds
  --deadline-ms MS  give up after this long (1000)

examples
  {"type": "command", "command": "inbox hook claude"}   (at a hook in .claude/settings.json)
  inboxd hooks claude                                   (prints all of them)
  echo '{"hook_event_name": "PostToolUse"}' | inbox hook claude --task backend --log hook.log`,
		run: runHook,
	})
}

// hook is one call.
type hook struct {
	host     string
	mode     string // what the broker is asked for instead of the mail itself: remind or wake
	linger   time.Duration
	deadline time.Duration
	log      string

	began  time.Time
	asked  time.Time // when the request was sent
	event  string
	result string // for the log
	print  func(stream string, text []byte) error
}

// poster is a way to the broker: rawhttp's wire, or the ordinary client for https and proxies.
type poster interface {
	post(path string, body []byte) (*answer, error)
	until(deadline time.Time)
	unreached(err error) bool // whether the broker is down, and not only its answer strange
}

func runHook(ctx *context, args []string) (code int) {
	run := &hook{began: time.Now(), host: "auto", deadline: hookDeadline, print: printHook}
	run.flags(args)
	defer func() {
		if fault := recover(); fault != nil {
			run.result = "a bug: " + faultText(fault)
			code = exitDone
		}
		run.note()
	}()
	return run.run(ctx)
}

// flags reads the command line; what makes no sense is left out, because a hook must not fail.
func (h *hook) flags(args []string) {
	number := func(text string, limit time.Duration) time.Duration {
		value, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return 0
		}
		return min(time.Duration(value)*time.Millisecond, limit)
	}
	for at := 0; at < len(args); at++ {
		name, value, joined := strings.Cut(args[at], "=")
		switch name {
		case "--remind", "--wake":
			h.mode = name[2:]
		case "--linger", "--deadline-ms", "--log":
			if !joined && at+1 < len(args) {
				at++
				value = args[at]
			}
			switch name {
			case "--linger":
				h.linger = number(value, lingerMax)
			case "--deadline-ms":
				if limit := number(value, lingerMax); limit > 0 {
					h.deadline = limit
				}
			case "--log":
				h.log = value
			}
		default:
			if name != "" && name[0] != '-' && len(name) <= 32 && isHost(name) {
				h.host = name
			}
		}
	}
}

func isHost(name string) bool {
	for at := range len(name) {
		if !isLetterOrDigit(name[at]) && name[at] != '-' && name[at] != '_' {
			return false
		}
	}
	return true
}

func (h *hook) run(ctx *context) int {
	guard := h.guard(h.deadline, exitDone) // a host that does not finish its input is not waited for
	defer func() { guard.Stop() }()        // after a panic too: a test goes on living
	fields, err := scanObject(ctx.stdin, hookFields, make([]byte, 32<<10))
	if !guard.Stop() {
		select {} // the guard is ending the process
	}
	if err != nil {
		h.result = "no input"
		return exitDone
	}
	h.event = textOf(fields[fieldEvent])
	// Everything has its own deadline; the guard is for what nobody thought of.
	guard = h.guard(h.linger+h.deadline+h.deadline/2, exitDone)
	deadline := h.began.Add(h.linger + h.deadline)

	from := readSettings(ctx.url, ctx.task, folderOf(fields))
	if from.url.value == "" {
		h.result = "no broker known"
		return exitDone
	}
	cache := cacheDir()
	broken := readBreaker(cache, from.url.value, h.began)
	if broken.open(h.began) {
		h.result = "broker left alone"
		return exitDone
	}
	way, err := h.way(from, deadline)
	if err != nil {
		h.result = "no way to the broker"
		return exitDone
	}
	folder := sessionDir(cache, textOf(fields[fieldSession]))
	verdicts := judgeBatches(readBatches(folder), h.began)

	body := h.request(fields, from, verdicts)
	h.asked = time.Now()
	got, err := way.post("/v1/hooks/"+h.host, body)
	if err != nil {
		h.result = "no answer"
		// A host that used up the time with its input says nothing of the broker.
		if way.unreached(err) && h.asked.Sub(h.began) < h.deadline/2 {
			broken.failed(time.Now())
		}
		return exitDone
	}
	broken.reached()
	speaks := got.status == 200 && len(got.body) > 0
	if speaks && !got.sensible() {
		h.result = "a strange answer"
		return exitDone
	}
	if got.status == 204 || speaks {
		for _, one := range verdicts.sent {
			one.forget()
		}
	}
	if !speaks {
		h.result = strconv.Itoa(got.status)
		return exitDone
	}
	if !guard.Stop() {
		select {}
	}
	guard = h.guard(hookPrint, exitDone) // a host that does not read is not waited for either
	return h.deliver(got, way, fields, cache, folder, guard)
}

// deliver prints an answer and acks it.
func (h *hook) deliver(got *answer, way poster, fields [][]byte, cache, folder string, guard *time.Timer) int {
	code := exitDone
	if got.exit == "2" {
		code = exitWake
	}
	var printed *batch
	if got.receipt != "" && got.messages != "" && folder != "" {
		printed = &batch{
			receipt:  got.receipt,
			task:     got.task,
			messages: strings.Split(got.messages, ","),
			atMs:     time.Now().UnixMilli(),
			toolUse:  textOf(fields[fieldToolUse]),
			before:   h.event == beforeTool,
			path:     batchFile(folder, got.receipt),
		}
		if path := textOf(fields[fieldTranscript]); readable(h.host, path) {
			printed.transcript = path
			printed.mark()
		}
		printed.write() // without it the message is still delivered, only nobody checks
	}
	err := errLate
	if got.receipt == "" || !h.late(got) {
		err = h.print(got.stream, got.body)
	}
	if !guard.Stop() {
		select {}
	}
	settle := "ack"
	h.result = "printed"
	if err != nil {
		settle, code, h.result = "release", exitDone, "could not print"
		if err == errLate {
			h.result = "too late to print"
		}
		if printed != nil {
			printed.forget()
		}
	}
	if got.receipt == "" {
		return code
	}
	h.guard(hookAck+hookAck/2, code)
	way.until(time.Now().Add(hookAck))
	body := append(appendQuoted([]byte(`{"receipt":`), got.receipt), '}')
	if acked, err := way.post("/v1/tasks/"+got.task+"/"+settle, body); err != nil {
		h.result += ", " + settle + " unanswered"
	} else if acked.status != 200 {
		h.result += ", " + settle + " " + strconv.Itoa(acked.status)
	}
	if printed != nil {
		sweepSessions(cache, h.began)
	}
	return code
}

var errLate = errors.New("too late")

// late says that the broker may by now have given the mail to somebody else: this process was stopped, or the whole machine
// was asleep, after the request was sent. Then not a word is printed, and the mail comes again.
func (h *hook) late(got *answer) bool {
	limit := h.linger + hookFresh
	if ms, err := strconv.ParseUint(got.within, 10, 31); err == nil {
		limit = time.Duration(ms) * time.Millisecond
	}
	return elapsed(h.asked, time.Now()) > limit
}

// elapsed is how long ago it was by the clock that says more: the steady one stands still while the machine sleeps, the one
// on the wall may be set back.
func elapsed(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// sensible says whether an answer can be printed and acked: names of our grammar, and no half of a JSON object. A broker
// always says whose hook it answers; what does not is something else at its address, such as a network's log-in page.
func (a *answer) sensible() bool {
	if !isTask(a.task) || a.receipt != "" && !isID(a.receipt) {
		return false
	}
	if a.messages != "" {
		for _, id := range strings.Split(a.messages, ",") {
			if !isID(id) {
				return false
			}
		}
	}
	if a.exit != "" && a.exit != "0" && a.exit != "2" {
		return false
	}
	if a.stream != "" && a.stream != "stdout" && a.stream != "stderr" {
		return false
	}
	if _, err := strconv.ParseUint(a.within, 10, 31); a.within != "" && err != nil {
		return false
	}
	if a.body[0] != '{' {
		return true
	}
	scan := scanner{input: bytes.NewReader(a.body), buffer: make([]byte, 4096)}
	return scan.skip() && scan.token() == 0 && scan.ended
}

func isTask(text string) bool {
	return isID(text) && len(text) <= 64 && !strings.Contains(text, ":")
}

// request is the body of the hook's one request: the host's fields as they came, and a member of our own.
func (h *hook) request(fields [][]byte, from *settings, verdicts *verdicts) []byte {
	body := make([]byte, 0, 1024)
	for at, value := range fields {
		if value == nil {
			continue
		}
		body = append(body, ",\""...)
		body = append(body, hookFields[at].name...)
		body = append(body, "\":"...)
		body = append(body, value...)
	}
	var pull [16]byte
	rand.Read(pull[:])
	body = append(body, `,"inbox":{"pull_id":"`...)
	body = hex.AppendEncode(body, pull[:])
	body = append(body, '"')
	if from.task.value != "" {
		body = appendQuoted(append(body, `,"task":`...), from.task.value)
	}
	if machine, err := os.Hostname(); err == nil {
		body = appendQuoted(append(body, `,"machine":`...), machine)
	}
	if len(verdicts.seen) > 0 {
		body = append(append(append(body, `,"seen":[`...), verdicts.seen[1:]...), ']')
	}
	if len(verdicts.unseen) > 0 {
		body = append(append(append(body, `,"unseen":[`...), verdicts.unseen[1:]...), ']')
	}
	for at, receipt := range verdicts.doubt {
		if at == 0 {
			body = append(body, `,"doubt":[`...)
		} else {
			body = append(body, ',')
		}
		body = appendQuoted(body, receipt)
		if at == len(verdicts.doubt)-1 {
			body = append(body, ']')
		}
	}
	if h.mode != "" {
		body = appendQuoted(append(body, `,"mode":`...), h.mode)
	}
	if h.linger > 0 {
		body = strconv.AppendInt(append(body, `,"linger_ms":`...), h.linger.Milliseconds(), 10)
	}
	body = append(body, "}}"...)
	body[0] = '{' // was the first comma
	return body
}

// verdicts are what the transcripts showed, ready to be sent.
type verdicts struct {
	seen   []byte // JSON objects, each with a comma before it
	unseen []byte
	doubt  []string // receipts
	sent   []*batch // to be forgotten once the broker knows
}

func judgeBatches(batches []*batch, now time.Time) *verdicts {
	found := &verdicts{}
	budget := int64(judgeMax)
	add := func(to []byte, one *batch, ids []string) []byte {
		to = appendQuoted(append(to, `,{"receipt":`...), one.receipt)
		to = append(to, `,"message_ids":[`...)
		for at, id := range ids {
			if at > 0 {
				to = append(to, ',')
			}
			to = appendQuoted(to, id)
		}
		return append(to, "]}"...)
	}
	for _, one := range batches {
		age := now.Sub(time.UnixMilli(one.atMs))
		if budget < judgeMin {
			found.doubt = append(found.doubt, one.receipt) // its turn comes with a later hook
			continue
		}
		seen, unseen, is, used := one.judge(budget)
		budget -= used
		switch {
		case is == verdictSettled:
			if len(seen) > 0 {
				found.seen = add(found.seen, one, seen)
			}
			if len(unseen) > 0 {
				found.unseen = add(found.unseen, one, unseen)
			}
			found.sent = append(found.sent, one)
		case is == verdictBlind:
			if age > blindFor {
				one.forget()
			}
		case age > doubtFor:
			one.forget()
		default:
			found.doubt = append(found.doubt, one.receipt)
		}
	}
	return found
}

// way is how this broker is reached.
func (h *hook) way(from *settings, deadline time.Time) (poster, error) {
	for _, letter := range []byte(from.token.value) {
		if letter <= ' ' || letter > '~' {
			return nil, errAddress
		}
	}
	at, err := plainAddress(from.url.value)
	if err == nil && (at.loopback() || os.Getenv("HTTP_PROXY") == "" && os.Getenv("http_proxy") == "") {
		return &wire{at: at, token: from.token.value, connect: hookConnect, deadline: deadline}, nil
	}
	if err != nil && err != errNotPlain {
		return nil, err
	}
	return newSlowWire(from, deadline)
}

// folderOf is where the settings of the worktree are looked for: where the agent works, or where the hook was started. A
// host's daemon may start all hooks in one place.
func folderOf(fields [][]byte) string {
	if given := textOf(fields[fieldCwd]); filepath.IsAbs(given) {
		return given
	}
	here, _ := os.Getwd()
	return here
}

// guard ends the process after a while, whatever it is doing.
func (h *hook) guard(after time.Duration, code int) *time.Timer {
	return time.AfterFunc(after, func() {
		h.result += " out of time"
		h.note()
		os.Exit(code)
	})
}

// note writes the log's line. It never holds a token or a message.
func (h *hook) note() {
	if h.log == "" {
		return
	}
	file, err := os.OpenFile(h.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	line := h.began.UTC().Format("2006-01-02T15:04:05.000Z") + " " + h.host + " " + orDash(oneWord(h.event)) + " " +
		orDash(printable(h.result)) + " " + strconv.FormatInt(time.Since(h.began).Milliseconds(), 10) + "ms\n"
	io.WriteString(file, line)
}

// oneWord keeps a host's word from breaking the log's line.
func oneWord(text string) string {
	return strings.Map(func(letter rune) rune {
		if letter > '~' || letter <= ' ' {
			return -1
		}
		return letter
	}, text[:min(len(text), 64)])
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func faultText(fault any) string {
	switch said := fault.(type) {
	case error:
		return said.Error()
	case string:
		return said
	}
	return "of an unknown kind"
}
