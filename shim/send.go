// send: one message to one inbox; with --subject a new thread, with --thread a word in one. Also what everything that
// speaks shares: the flags that make up a message, and where its body comes from.
//
// The id is minted here, before the first try, so that a lost answer and a retry store one message.
package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"
)

const (
	bodyMax    = 16 << 20        // bytes that are read of a body; the broker's own limit is lower and says so better
	stdinSlow  = 2 * time.Second // after this a person is told what is waited for
	spoolTries = 2 * time.Second // of one try when the message can be kept instead
)

var priorities = []string{"low", "normal", "high", "urgent"}
var kinds = []string{"message", "task", "progress", "question", "answer", "result", "control", "event", "help_request"}

// contentOptions are the flags of everything that sends mail.
var contentOptions = joinOptions([]option{
	{name: "--body", value: "TEXT", text: "what it says (markdown); or as the last words, or on stdin"},
	{name: "--body-file", value: "FILE", text: "read that from a file; - is stdin"},
	{name: "--subject", value: "TEXT", text: "one line"},
	{name: "--summary", value: "TEXT", text: "a short form of a long body"},
	{name: "--priority", value: "P", text: "urgent also stops the agent's next tool call", choices: priorities},
	{name: "--kind", value: "KIND", text: "what sort of message it is", choices: kinds},
	{name: "--reply-to", value: "ID", text: "the message this one answers"},
	{name: "--await", text: "you wait for an answer: shown as waiting until it comes"},
	{name: "--ttl", value: "TIME", text: "undelivered after this, it expires: 30s, 10m, 2h, 1d"},
	{name: "--topic", value: "TEXT", text: "replaces your own queued message of the same topic"},
	{name: "--payload-json", value: "JSON", text: "any JSON value beside the body"},
}, artifactOptions, []option{
	{name: "--thread", value: "ID", text: "the thread it belongs to"},
	idOption,
})

var sendOptions = joinOptions([]option{
	{name: "--from", value: "SENDER", text: "in whose name: only what the token allows"},
	{name: "--to", value: "TASK", text: "whose inbox; or as the first word"},
	{name: "--subject", value: "TEXT", text: "open a thread about this: work with a status. Without --to anybody may claim it"},
	{name: "--thread", value: "ID", text: "say it in this thread, which changes no status"},
	{name: "--run", value: "LABEL", text: "of a new thread: a label of yours, such as the run it belongs to"},
	{name: "--task", value: "LABEL", text: "of a new thread: a label of yours, such as a ticket"},
}, without(contentOptions, "--subject", "--thread"), []option{
	{name: "--supersedes", value: "ID", text: "replaces this queued message of yours"},
	{name: "--create", text: "declare the task if it is unknown"},
	{name: "--spool", text: "keep it here if the broker is away; a later command sends it"},
})

func joinOptions(lists ...[]option) []option {
	if forHook() {
		return nil
	}
	var all []option
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// without is a list of flags without some.
func without(options []option, names ...string) []option {
	if forHook() {
		return nil
	}
	var left []option
	for _, one := range options {
		if !contains(names, one.name) {
			left = append(left, one)
		}
	}
	return left
}

func init() {
	register(&command{
		name: "send", group: "mail", summary: "Send a message to a task, or to the person (`user`); open a thread.",
		usage: "send TASK TEXT [flags] | send [TASK] --subject TEXT [flags] | send --thread ID --body TEXT",
		own:   "--task",
		help: helpText("Plain mail is handed over at the agent's next free moment. --subject opens a thread instead: work that somebody\n"+
			"claims and finishes, and that you can follow (`inbox watch --threads`) and cancel. --thread says a word in one, as\n"+
			"`inbox reply` does. It is stored once, however often it is tried.\n"+
			"--task is a label with --subject; in plain mail it is the older name of --agent.",
			sendOptions,
			`inbox send backend "The API is frozen: do not touch auth.ts." --priority urgent`,
			`inbox send user --kind question --await "Which of the two schemas?"`,
			`inbox send --to backend --subject "Log-in fails on Safari" --body-file report.md --priority high`,
			`git diff | inbox send review --subject "Please look at this" --run nightly --task T4`,
			`inbox send --thread 0192f3a1 --body "The schema is frozen now." --artifact schema.sql --artifact-kind sql`),
		run: runSend,
	})
}

// content is a message on its way out; the fields are the broker's.
type content struct {
	MessageID  string          `json:"message_id"`
	To         any             `json:"to,omitempty"`
	Body       string          `json:"body,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Subject    string          `json:"subject,omitempty"`
	Summary    string          `json:"summary,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Priority   string          `json:"priority,omitempty"`
	ThreadID   string          `json:"thread_id,omitempty"`
	ReplyTo    string          `json:"reply_to,omitempty"`
	Awaiting   bool            `json:"awaiting_response,omitempty"`
	Topic      string          `json:"topic,omitempty"`
	TTLMs      int64           `json:"ttl_ms,omitempty"`
	Artifacts  []artifact      `json:"artifacts,omitempty"`
	Supersedes string          `json:"supersedes,omitempty"`
	Create     bool            `json:"create,omitempty"`
	From       string          `json:"from,omitempty"`

	// Of a thread.
	RunID        string `json:"run_id,omitempty"`
	TaskID       string `json:"task_id,omitempty"`
	Status       string `json:"status,omitempty"`
	Agent        string `json:"agent,omitempty"`
	FencingToken *int64 `json:"fencing_token,omitempty"`
}

// sent is what the broker answers to send.
type sent struct {
	Message        message  `json:"message"`
	Duplicate      bool     `json:"duplicate"`
	Pending        int      `json:"pending"`
	RecipientState string   `json:"recipient_state"`
	Superseded     []string `json:"superseded"`
}

// sentMany is what it answers to peer and broadcast.
type sentMany struct {
	Sent      []sent `json:"sent"`
	Duplicate bool   `json:"duplicate"`
}

func runSend(ctx *context, args []string) int {
	read, problem := ctx.parse(sendOptions, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--subject") || read.has("--thread") {
		return ctx.sendInThread(read)
	}
	if read.has("--run") {
		return ctx.invalid("--run is a label of a new thread.", "Open one with --subject TEXT, or leave it out.")
	}
	if read.has("--task") { // as with every other command
		if ctx.agent != "" && ctx.agent != read.get("--task") {
			return ctx.invalid("--agent and --task name two, and are one setting in plain mail.", "Give one of them; with --subject, --task is a label.")
		}
		ctx.task = read.get("--task")
	}
	to, words, problem := recipient(read)
	if problem == nil && to == "" {
		problem = invalidInput("Nobody is named to send to.", "Write `inbox send TASK TEXT`, or --to TASK.")
	}
	if problem != nil {
		return ctx.fail(problem)
	}
	message, problem := ctx.readContent(read, words)
	if problem != nil {
		return ctx.fail(problem)
	}
	message.Supersedes = read.get("--supersedes")
	message.Create = read.has("--create")
	message.From = ctx.sender(read.get("--from"))
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--spool") {
		broker.timeout = spoolTries
	}
	body := jsonOf(message)
	answer, problem, away := broker.askWaiting("POST", taskPath(to, "messages"), body, 0)
	if away && read.has("--spool") {
		return ctx.keepSent(broker, to, message.MessageID, body, problem)
	}
	if problem != nil {
		return ctx.fail(problem)
	}
	var done sent
	if problem := understand(answer, &done); problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("send", answer)
		return exitDone
	}
	ctx.saySent(&done)
	return exitDone
}

// recipient is who it is for, and the words that are left for the body; empty when nobody is named.
func recipient(read *arguments) (string, []string, *problem) {
	to, words := read.get("--to"), read.words
	if to == "" && len(words) > 0 {
		to, words = words[0], words[1:]
	}
	if to == "" {
		return "", words, nil
	}
	problem := checkTask(to)
	if problem != nil && !read.has("--to") {
		problem.hint = "The first word is the task; give the text with --body."
	}
	return to, words, problem
}

// keepSent puts the message into the spool and says why.
func (ctx *context) keepSent(broker *broker, to, id string, body []byte, why *problem) int {
	path, problem := broker.keep(to, id, body)
	if problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("send", jsonOf(struct {
			Spooled   bool   `json:"spooled"`
			MessageID string `json:"message_id"`
			Task      string `json:"task"`
			File      string `json:"file"`
			Why       string `json:"why"`
		}{true, id, to, path, why.message}))
		return exitDone
	}
	ctx.say("kept %s for %s: %s", id, to, why.message)
	ctx.say("The next inbox command that reaches the broker sends it.")
	return exitDone
}

// saySent tells what became of one message.
func (ctx *context) saySent(done *sent) {
	paint := ctx.paint()
	to := done.Message.Task
	if done.Duplicate {
		ctx.say("%s to %s was sent before; nothing new was stored (it is %s)", done.Message.MessageID, to, done.Message.State)
		return
	}
	ctx.say("%s %s to %s (%s there, %s)", paint(green, "sent"), done.Message.MessageID, paint(bold, to),
		counted(done.Pending, "message")+" waiting", done.RecipientState)
	for _, id := range done.Superseded {
		ctx.say("it replaces %s", id)
	}
	if done.Message.Sender == "task:"+to {
		ctx.note("It went from %s to itself: what is sent from here is the agent's word. Send yours from another folder.", to)
	}
	if done.RecipientState == "terminated" {
		ctx.say("%s has ended: the message waits until it starts again", to)
	}
}

// saySentMany is the answer of peer and broadcast; none reached is no matching work.
func (ctx *context) saySentMany(command string, answer []byte) int {
	var done sentMany
	if problem := understand(answer, &done); problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON(command, answer)
	} else {
		for at := range done.Sent {
			ctx.saySent(&done.Sent[at])
		}
		if len(done.Sent) == 0 {
			ctx.say("there is nobody to send to")
		}
	}
	if len(done.Sent) == 0 {
		return exitNoWork
	}
	return exitDone
}

// readContent makes a message of the flags, and of the words that stand for its body.
func (ctx *context) readContent(read *arguments, words []string) (*content, *problem) {
	made := &content{
		Kind:     read.get("--kind"),
		Subject:  read.get("--subject"),
		Summary:  read.get("--summary"),
		Priority: read.get("--priority"),
		ThreadID: read.get("--thread"),
		ReplyTo:  read.get("--reply-to"),
		Awaiting: read.has("--await"),
		Topic:    read.get("--topic"),
	}
	var problem *problem
	if made.MessageID, problem = newID(read); problem != nil {
		return nil, problem
	}
	if read.has("--ttl") {
		span, problem := readSpan("--ttl", read.get("--ttl"), "")
		if problem != nil {
			return nil, problem
		}
		if made.TTLMs = span.Milliseconds(); made.TTLMs < 1 {
			return nil, invalidInput("--ttl is no time at all.", "Write a time with its unit: 30s, 10m, 2h, 1d.")
		}
	}
	if read.has("--payload-json") {
		payload, problem := readJSON("--payload-json", read.get("--payload-json"))
		if problem != nil {
			return nil, problem
		}
		made.Payload = payload
	}
	if made.Artifacts, problem = readArtifacts(read); problem != nil {
		return nil, problem
	}
	says := made.says() || made.Subject != ""
	made.Body, problem = ctx.readBody(read, words, says)
	if problem != nil {
		return nil, problem
	}
	if made.Body == "" && !says {
		return nil, invalidInput("The message says nothing.", "Give a text, --body-file FILE, or pipe it in.")
	}
	return made, made.check()
}

func readJSON(name, text string) (json.RawMessage, *problem) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, invalidInput(name+" is not JSON: "+err.Error()+".", `Quote it for the shell: '{"ticket": 17}'.`)
	}
	return json.RawMessage(text), nil
}

// readArtifacts reads the flags in their order: each --artifact begins one, and what describes it comes behind it.
func readArtifacts(read *arguments) ([]artifact, *problem) {
	var made []artifact
	for _, flag := range read.order {
		if flag.name == "--artifact" {
			if flag.value == "" {
				return nil, invalidInput("--artifact names nothing.", "Write --artifact PATH.")
			}
			made = append(made, artifact{Path: flag.value})
			continue
		}
		if flag.name != "--artifact-kind" && flag.name != "--artifact-metadata-json" {
			continue
		}
		if len(made) == 0 {
			return nil, invalidInput("There is no artifact to describe.", "Name it first, with --artifact PATH.")
		}
		one := &made[len(made)-1]
		if flag.name == "--artifact-kind" && one.Kind != "" || flag.name == "--artifact-metadata-json" && one.Metadata != nil {
			return nil, invalidInput(flag.name+" is given twice for "+one.Path+".", "It belongs to the --artifact before it.")
		}
		if flag.name == "--artifact-kind" {
			one.Kind = flag.value
			continue
		}
		value, problem := readJSON(flag.name, flag.value)
		if problem != nil {
			return nil, problem
		}
		if !strings.HasPrefix(strings.TrimSpace(flag.value), "{") {
			return nil, invalidInput(flag.name+" is no object.", `It looks like '{"lines": 12}'.`)
		}
		one.Metadata = value
	}
	return made, nil
}

// readBody finds the body where it was given, in one place only: flag, file, words, or stdin when something is piped in.
func (ctx *context) readBody(read *arguments, words []string, says bool) (string, *problem) {
	if !read.has("--body") && !read.has("--body-file") && len(words) == 0 && ctx.isPiped(says) {
		return ctx.readStdin()
	}
	return ctx.namedBody(read, words)
}

// namedBody is a body that was given by flag, file or words; stdin only where it is named.
func (ctx *context) namedBody(read *arguments, words []string) (string, *problem) {
	var places []string
	if read.has("--body") {
		places = append(places, "--body")
	}
	if read.has("--body-file") {
		places = append(places, "--body-file")
	}
	if len(words) > 0 {
		places = append(places, "the words `"+cutTo(oneLine(strings.Join(words, " ")), 30)+"`")
	}
	if len(places) > 1 {
		return "", invalidInput("The body is given twice: by "+strings.Join(places, " and by ")+".", "Give it once.")
	}
	switch {
	case read.has("--body"):
		return read.get("--body"), nil
	case len(words) == 1 && words[0] == "-", read.get("--body-file") == "-":
		return ctx.readStdin()
	case len(words) > 0:
		return strings.Join(words, " "), nil
	case read.has("--body-file"):
		file, err := os.Open(read.get("--body-file"))
		if err != nil {
			return "", unreadable(read.get("--body-file"), err)
		}
		defer file.Close()
		return readText(file, read.get("--body-file"))
	}
	return "", nil
}

// isPiped says whether stdin was meant as the body. An agent's shell often leaves a socket open there that never ends,
// so one of those is read only when nothing else says anything.
func (ctx *context) isPiped(says bool) bool {
	file, ok := ctx.stdin.(*os.File)
	if !ok {
		return ctx.stdin != nil
	}
	about, err := file.Stat()
	if err != nil || about.Mode()&os.ModeCharDevice != 0 {
		return false
	}
	return !says || about.Mode()&os.ModeSocket == 0
}

func (ctx *context) readStdin() (string, *problem) {
	slow := time.AfterFunc(stdinSlow, func() { ctx.note("reading the body from stdin …") })
	defer slow.Stop()
	return readText(ctx.stdin, "stdin")
}

func readText(from io.Reader, name string) (string, *problem) {
	text, err := io.ReadAll(io.LimitReader(from, bodyMax+1))
	if err != nil {
		return "", unreadable(name, err)
	}
	if len(text) > bodyMax {
		return "", invalidInput(name+" is too large for a body.", "Send its path with --artifact instead.")
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func unreadable(name string, err error) *problem {
	if path, ok := err.(*os.PathError); ok {
		err = path.Err
	}
	return invalidInput("The body cannot be read from "+name+": "+err.Error()+".", "Name a file that is there, or - for stdin.")
}

// sender is whom a message is from: whoever was named, else the task that this folder is, when the machine's own token is used. Other
// tokens know by themselves whose they are; that one would speak as the operator, whom nobody can answer.
func (ctx *context) sender(named string) string {
	from := ctx.settings()
	if named == "" && from.task.value != "" && from.token.from == runtimeFile() {
		return fullSender(from.task.value)
	}
	return fullSender(named)
}
