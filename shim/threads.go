// Threads: what the verbs of workers and leaders share. How a thread is shown, the flags that say something in it, in whose
// name a command speaks, and a worker's write under the lease that was kept for it.
//
// The broker decides everything. What is refused here is only what could never be sent.
package main

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var statuses = []string{"pending", "claimed", "in_progress", "blocked", "done", "failed", "cancelled"}

const (
	leaseLeast = time.Second
	leaseMost  = 24 * time.Hour
	reasonMax  = 4000 // letters of a summary or a reason
)

type lease struct {
	Agent        string `json:"agent"`
	FencingToken int64  `json:"fencing_token"`
	ExpiresAtMs  int64  `json:"expires_at_ms"`
	ReleasedAtMs int64  `json:"released_at_ms"`
	Live         bool   `json:"live"`
}

// thread is a thread as the broker shows it.
type thread struct {
	ThreadID    string `json:"thread_id"`
	RunID       string `json:"run_id"`
	TaskID      string `json:"task_id"`
	Subject     string `json:"subject"`
	CreatedBy   string `json:"created_by"`
	AssignedTo  string `json:"assigned_to"`
	Status      string `json:"status"`
	Priority    string `json:"priority"`
	Summary     string `json:"summary"`
	QuestionID  string `json:"question_id"`
	Messages    int    `json:"messages"`
	Unread      bool   `json:"unread"`
	CreatedAtMs int64  `json:"created_at_ms"`
	UpdatedAtMs int64  `json:"updated_at_ms"`
	Lease       *lease `json:"lease"`
}

// saidInThread is what the broker answers to every verb that says something.
type saidInThread struct {
	Thread    thread  `json:"thread"`
	Message   message `json:"message"`
	Duplicate bool    `json:"duplicate"`
}

// The flags.

var threadOption = option{name: "--thread", value: "ID", text: "which thread"}
var leaseOption = option{name: "--lease-seconds", value: "N", text: "how long it is yours; the broker's ten minutes if not given"}
var fencingOption = option{name: "--fencing-token", value: "N", text: "the lease's own, instead of the one that is kept here"}
var limitOption = option{name: "--limit", value: "N", text: "rows at most"}
var idOption = option{name: "--id", value: "ID", text: "its id, if it has one already; a retry with it changes nothing twice"}

// wordOptions are the flags of what is said in a thread.
var wordOptions = joinOptions([]option{
	{name: "--summary", value: "TEXT", text: "in one sentence"},
	{name: "--body", value: "TEXT", text: "all of it (markdown)"},
	{name: "--body-file", value: "FILE", text: "read that from a file; - is stdin"},
	{name: "--payload-json", value: "JSON", text: "any JSON value beside the body"},
}, artifactOptions, []option{idOption})

// artifactOptions repeat: each --artifact begins one, and the two others belong to the one before them.
var artifactOptions = []option{
	{name: "--artifact", value: "PATH", text: "a file it speaks of; may be repeated", many: true},
	{name: "--artifact-kind", value: "KIND", text: "of the artifact before it: patch, log, report …", many: true},
	{name: "--artifact-metadata-json", value: "JSON", text: "of the artifact before it: an object", many: true},
}

// theThread is the thread that a command is about.
func theThread(read *arguments) (string, *problem) {
	id := read.get("--thread")
	if id == "" {
		return "", invalidInput("No thread is named.", "Give --thread ID; `inbox fetch` and `inbox list` show them.")
	}
	if !isID(id) {
		return "", invalidInput("`"+id+"` cannot be a thread's id.", "`inbox fetch` and `inbox list` show them.")
	}
	return id, nil
}

func threadPath(id, verb string) string {
	path := "/v1/threads/" + url.PathEscape(id)
	if verb != "" {
		path += "/" + verb
	}
	return path
}

// readStatuses reads a list with commas.
func readStatuses(read *arguments) ([]string, *problem) {
	named := splitList(read.get("--status"))
	for _, one := range named {
		if !contains(statuses, one) {
			return nil, invalidInput("--status cannot be `"+one+"`.", "It is a list of "+strings.Join(statuses, ", ")+".")
		}
	}
	if read.has("--status") && len(named) == 0 {
		return nil, invalidInput("--status is empty.", "It is a list of "+strings.Join(statuses, ", ")+".")
	}
	return named, nil
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(letter rune) bool { return letter == ',' || letter == '|' || unicode.IsSpace(letter) })
}

// readLease is the time asked for, in milliseconds; 0 leaves it to the broker.
func readLease(read *arguments) (int64, *problem) {
	if !read.has("--lease-seconds") {
		return 0, nil
	}
	span, problem := readSpan("--lease-seconds", read.get("--lease-seconds"), "s")
	if problem != nil {
		return 0, problem
	}
	if span < leaseLeast || span > leaseMost {
		return 0, invalidInput("--lease-seconds cannot be `"+read.get("--lease-seconds")+"`.", "It is 1 to 86400.")
	}
	return span.Milliseconds(), nil
}

// newID is the id of one write: what was given with --id, or a new one.
func newID(read *arguments) (string, *problem) {
	id := read.get("--id")
	if !read.has("--id") {
		return mintID(), nil
	}
	if !isID(id) {
		return "", invalidInput("--id cannot be `"+id+"`.", "It has letters, digits, `.`, `_`, `:` and `-`.")
	}
	return id, nil
}

// readWords makes what is said of the flags, and of the words that stand for its body.
func (ctx *context) readWords(read *arguments, words []string) (*content, *problem) {
	made := &content{Summary: read.get("--summary")}
	var problem *problem
	if made.MessageID, problem = newID(read); problem != nil {
		return nil, problem
	}
	if read.has("--payload-json") {
		if made.Payload, problem = readJSON("--payload-json", read.get("--payload-json")); problem != nil {
			return nil, problem
		}
	}
	if made.Artifacts, problem = readArtifacts(read); problem != nil {
		return nil, problem
	}
	if made.Body, problem = ctx.namedBody(read, words); problem != nil {
		return nil, problem
	}
	return made, made.check()
}

// says is whether there is anything in it.
func (c *content) says() bool {
	return c.Body != "" || c.Summary != "" || c.Payload != nil || len(c.Artifacts) > 0
}

// check is what JSON or one line cannot hold.
func (c *content) check() *problem {
	for _, text := range []string{c.Body, c.Subject, c.Summary} {
		if !utf8.ValidString(text) {
			return invalidInput("The message is not text in UTF-8.", "Send a file's path with --artifact instead.")
		}
	}
	if utf8.RuneCountInString(c.Summary) > reasonMax {
		return invalidInput("--summary is too long.", "It is one sentence; --body takes the rest.")
	}
	return nil
}

// In whose name.

// voice is in whose name a thread is opened, answered or cancelled; empty leaves it to the token. A token that may speak for
// several says whom it speaks for: what a worker says must stand under its own name, or its lease would not count.
func (b *broker) voice(named string) (string, *problem) {
	from := b.ctx.settings()
	if named != "" || from.task.value == "" {
		return fullSender(named), nil
	}
	if problem := checkTask(from.task.value); problem != nil {
		return "", problem
	}
	if from.token.from != runtimeFile() && b.ctx.task == "" {
		who, problem := b.whoami()
		if problem != nil {
			return "", problem
		}
		if who.Role == "user" || who.Role == "observer" {
			return "", nil // a person in an agent's folder is still the person
		}
	}
	return fullSender(from.task.value), nil
}

// fullSender is a sender as it is written on the wire: a task may be named without its `task:`.
func fullSender(name string) string {
	if name == "" || strings.Contains(name, ":") || contains([]string{"user", "operator", "system"}, name) {
		return name
	}
	return "task:" + name
}

// lookingAgent is for whom a thread is looked at, where that only decides what counts as unread; empty leaves it to the token.
func (ctx *context) lookingAgent() string {
	from := ctx.settings()
	if ctx.task != "" || from.token.from == runtimeFile() {
		return from.task.value
	}
	return ""
}

// Writing.

// work is an agent and a thread, and the lease that was kept for the two.
type work struct {
	broker *broker
	agent  string
	thread string
	kept   *keptLease
	token  int64 // fencing; 0 when none is known: the broker then says what is wrong
}

// atWork finds out who works on what.
func (ctx *context) atWork(read *arguments) (*work, *problem) {
	thread, problem := theThread(read)
	if problem != nil {
		return nil, problem
	}
	token, problem := readToken(read)
	if problem != nil {
		return nil, problem
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return nil, problem
	}
	agent, problem := broker.ownTask("")
	if problem != nil {
		return nil, problem
	}
	return broker.workOf(agent, thread, token), nil
}

func (b *broker) workOf(agent, thread string, token int64) *work {
	made := &work{b, agent, thread, keptLeaseOf(b.client.base, thread, agent), token}
	if token == 0 {
		made.token = made.kept.FencingToken
	}
	return made
}

func readToken(read *arguments) (int64, *problem) {
	if !read.has("--fencing-token") {
		return 0, nil
	}
	number, err := strconv.ParseInt(read.get("--fencing-token"), 10, 64)
	if err != nil || number < 1 {
		return 0, invalidInput("--fencing-token cannot be `"+read.get("--fencing-token")+"`.", "It is the number that claim answered with.")
	}
	return number, nil
}

// write asks, and forgets the lease when it is lost or the thread is over.
func (w *work) write(verb string, body any) ([]byte, *problem) {
	answer, problem := w.broker.ask("POST", threadPath(w.thread, verb), body)
	if problem == nil {
		return answer, nil
	}
	if problem.code == "LEASE_LOST" || problem.code == "THREAD_STATE" {
		if w.token == w.kept.FencingToken {
			w.kept.forget()
		}
		if problem.code == "LEASE_LOST" && w.token == 0 && problem.hint == "" {
			problem.hint = "No fencing token of yours is kept here: claim it first, `inbox claim --thread " + w.thread + "`, or give --fencing-token N."
		}
	}
	return nil, problem
}

// failIn is fail for a problem with a thread: where the broker has no hint, the next command is one.
func (ctx *context) failIn(thread string, p *problem) int {
	if p.hint == "" {
		p.hint = hintFor(p.code, thread)
	}
	return ctx.fail(p)
}

func hintFor(code, thread string) string {
	switch code {
	case "LEASE_CONFLICT":
		return "Leave it and take another: `inbox fetch`."
	case "LEASE_LOST":
		return "Stop working on it. If it is free, `inbox claim --thread " + thread + "` takes it again."
	case "THREAD_UNKNOWN":
		return "`inbox list` shows the threads there are."
	case "THREAD_STATE":
		return "`inbox show --thread " + thread + "` shows what became of it."
	case "THREAD_FORBIDDEN":
		return "`inbox fetch` shows what you may take, `inbox list` what you have a part in."
	case "THREAD_FULL":
		return "Finish it, and open another with `inbox send --subject`."
	case "MESSAGE_UNKNOWN":
		return "`inbox show --thread " + thread + "` lists its messages."
	case "MESSAGE_ID_REUSED":
		return "Give another --id, or none."
	case "TASK_UNKNOWN":
		return "`inbox tasks` lists them; `inbox task declare NAME` makes one."
	case "FORBIDDEN", "SENDER_FORBIDDEN", "TOKEN_INVALID", "TOKEN_MISSING":
		return "`inbox config` shows which token is used, and where it comes from."
	case "MALFORMED_JSON":
		return "The JSON is nested too deep to be sent: put it in a file and give its path with --artifact."
	case "INVALID_REQUEST":
		return "`inbox --help` and `inbox COMMAND --help` say what is asked for."
	}
	return ""
}

// Showing.

func statusColour(status string) string {
	switch status {
	case "done":
		return green
	case "blocked":
		return yellow
	case "failed":
		return red
	case "claimed", "in_progress":
		return cyan
	case "pending":
		return bold
	}
	return dim
}

// leaseLeft says how a lease stands, in two or three words; empty for none.
func (t *thread) leaseLeft() string {
	switch {
	case t.Lease == nil || t.Lease.ReleasedAtMs > 0:
		return ""
	case !t.Lease.Live:
		return "lease ran out"
	}
	return "lease " + rough(max(0, time.Until(time.UnixMilli(t.Lease.ExpiresAtMs)).Round(time.Second))) + " left"
}

// owner is whose it is: who works on it, or should.
func (t *thread) owner() string {
	if t.Lease != nil && t.Lease.ReleasedAtMs == 0 {
		return t.Lease.Agent
	}
	if t.AssignedTo == "" {
		return "anybody"
	}
	return t.AssignedTo
}

// sayThreads prints a list of threads.
func (ctx *context) sayThreads(threads []thread) {
	rows := make([][]cell, 0, len(threads))
	for at := range threads {
		one := &threads[at]
		news, left := "", dim
		if one.Unread {
			news = "new"
		}
		if one.Lease != nil && !one.Lease.Live {
			left = yellow
		}
		rows = append(rows, []cell{
			{text: one.Status, colour: statusColour(one.Status)},
			{text: one.Priority, colour: priorityColour(one.Priority)},
			{text: news, colour: green},
			{text: one.ThreadID, colour: dim},
			{text: strings.TrimPrefix(one.CreatedBy, "task:")},
			{text: one.owner()},
			{text: strings.TrimPrefix(one.leaseLeft(), "lease "), colour: left},
			{text: age(one.UpdatedAtMs), colour: dim, right: true},
			{text: one.about()},
		})
	}
	ctx.table([]string{"STATUS", "PRIORITY", "NEW", "THREAD", "FROM", "FOR", "LEASE", "AGE", "ABOUT"}, rows)
}

// about is the subject, and how it stands.
func (t *thread) about() string {
	if t.Summary == "" {
		return t.Subject
	}
	return t.Subject + " · " + t.Summary
}

// sayThread tells a person how a thread stands, in one line.
func (ctx *context) sayThread(verb string, t *thread) {
	paint := ctx.paint()
	line := paint(statusColour(t.Status), verb) + " " + t.ThreadID + ": " + paint(bold, oneLine(t.Subject))
	if left := t.leaseLeft(); left != "" {
		line += paint(dim, " · "+left)
	}
	ctx.say("%s", line)
}

// saySaid is the answer to a verb that said something. A duplicate of an id that was minted here is this very command's own
// first try, whose answer was lost: for whoever called, it was done now.
func (ctx *context) saySaid(read *arguments, command string, verb string, answer []byte) int {
	var done saidInThread
	if problem := understand(answer, &done); problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON(command, answer)
		return exitDone
	}
	if done.Duplicate && read.has("--id") {
		ctx.say("%s was said before; nothing was changed (the thread is %s)", done.Message.MessageID, done.Thread.Status)
		return exitDone
	}
	ctx.sayThread(verb, &done.Thread)
	if to := done.Message.Task; to != "" {
		ctx.say("%s", ctx.paint()(dim, done.Message.Kind+" "+done.Message.MessageID+" is mail to "+oneLine(to)))
	}
	return exitDone
}
