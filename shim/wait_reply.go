// wait-reply: block until a reply to you lands in a thread, and print it.
//
// The reply is held for this process while it prints, and acked once the words are out: a process that is killed before
// loses nothing, the hook or the next wait-reply shows it; one that printed it has taken it, and no hook shows it again.
package main

import (
	"encoding/json"
	"strconv"
	"time"
)

var waitReplyOptions = []option{
	threadOption,
	{name: "--after-message", value: "ID", text: "behind this message of the thread; behind your own last word if not given"},
	{name: "--after-event", value: "N", text: "behind this event: the next_event_id of the call before"},
	{name: "--kinds", value: "LIST", text: "what counts as a reply: answer|control|result if not given"},
	{name: "--timeout-seconds", value: "N", text: "give up after this long, with exit code 10 (300); 0 looks once"},
}

const replyTimeout = 300 * time.Second

func init() {
	register(&command{
		name: "wait-reply", group: "threads", summary: "Wait for the answer in a thread.",
		usage: "wait-reply --thread ID [--timeout-seconds N] [flags]",
		help: helpText("For a worker that asked something with `inbox update --status blocked`, or a leader that waits for a result: it wakes at\n"+
			"once when the reply lands and prints it. What it prints is taken: no hook shows it again. A reply that came before the\n"+
			"call, or between two calls, is not missed. `inbox watch --threads` follows many threads and takes nothing.\n"+
			"Exit code 10: time is up (woke: false); call again with --after-event and the next_event_id. 30: the thread is over.",
			waitReplyOptions,
			`inbox wait-reply --thread 0192f3a1`,
			`inbox wait-reply --thread 0192f3a1 --timeout-seconds 60 --json`,
			`inbox wait-reply --thread 0192f3a1 --kinds result --after-event 127`),
		run: runWaitReply,
	})
}

type replyRequest struct {
	Agent        string   `json:"agent"`
	AfterEvent   *int64   `json:"after_event,omitempty"`
	AfterMessage string   `json:"after_message,omitempty"`
	Kinds        []string `json:"kinds,omitempty"`
	WaitMs       int64    `json:"wait_ms"`
	Ack          bool     `json:"ack"`
	Session      string   `json:"session"`
}

// replied is what the broker answers.
type replied struct {
	Woke        bool            `json:"woke"`
	NextEventID int64           `json:"next_event_id"`
	Message     json.RawMessage `json:"message"`
	Receipt     string          `json:"receipt"`
}

func runWaitReply(ctx *context, args []string) int {
	read, problem := ctx.parse(waitReplyOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	thread, problem := theThread(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	want, timeout, problem := readWait(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	if want.Agent, problem = broker.ownTask(""); problem != nil {
		return ctx.fail(problem)
	}
	found, problem := broker.waitReply(thread, want, time.Now().Add(timeout))
	if problem != nil {
		return ctx.failIn(thread, problem)
	}
	return broker.sayReply(thread, want, found)
}

func readWait(read *arguments) (*replyRequest, time.Duration, *problem) {
	timeout := replyTimeout
	if read.has("--timeout-seconds") {
		var problem *problem
		if timeout, problem = readSpan("--timeout-seconds", read.get("--timeout-seconds"), "s"); problem != nil {
			return nil, 0, problem
		}
	}
	after, problem := readEvent(read)
	if problem != nil {
		return nil, 0, problem
	}
	if id := read.get("--after-message"); read.has("--after-message") && !isID(id) {
		return nil, 0, invalidInput("--after-message cannot be `"+id+"`.", "It is the message_id of a message of the thread.")
	}
	named := splitList(read.get("--kinds"))
	if read.has("--kinds") && len(named) == 0 {
		return nil, 0, invalidInput("--kinds is empty.", "It is a list such as answer,control,result.")
	}
	for _, one := range named {
		if !contains(kinds, one) {
			return nil, 0, invalidInput("--kinds cannot be `"+one+"`.", "It is a list such as answer,control,result.")
		}
	}
	// A session of its own: a retry gets what this process holds already, and nothing that a hook or another wait holds.
	session := sessionName(cutBytes(cliSession(), 90) + "/wait-" + mintID()[24:])
	return &replyRequest{AfterEvent: after, AfterMessage: read.get("--after-message"), Kinds: named, Session: session}, timeout, nil
}

func cutBytes(text string, most int) string { return text[:min(len(text), most)] }

// waitReply looks first and then waits: so the place is known, and a broker that is restarted meanwhile costs nothing.
func (b *broker) waitReply(thread string, want *replyRequest, until time.Time) (*replied, *problem) {
	var patience patience
	var wait time.Duration
	for {
		began := time.Now()
		want.WaitMs = wait.Milliseconds()
		answer, problem, away := b.askWaiting("POST", threadPath(thread, "wait-reply"), want, wait)
		over := !time.Now().Before(until)
		if patience.lasts(b, away) && !over {
			pauseUnlessWaited(began, time.Second)
			continue
		}
		if problem != nil {
			return nil, problem
		}
		found := &replied{}
		if problem := understand(answer, found); problem != nil {
			return nil, problem
		}
		if found.Woke || over {
			return found, nil
		}
		pauseUnlessWaited(began, wait)
		want.AfterEvent, wait = &found.NextEventID, longPoll(until)
	}
}

// sayReply prints the reply, and then takes it.
func (b *broker) sayReply(thread string, want *replyRequest, found *replied) int {
	ctx := b.ctx
	var reply message
	if found.Woke {
		if problem := understand(found.Message, &reply); problem != nil {
			return ctx.fail(problem)
		}
	}
	printed := &sureWriter{to: ctx.stdout}
	ctx.stdout = printed
	switch {
	case ctx.json:
		ctx.sayJSON("wait-reply", jsonOf(struct {
			Woke        bool            `json:"woke"`
			NextEventID int64           `json:"next_event_id"`
			Message     json.RawMessage `json:"message"`
		}{found.Woke, found.NextEventID, orNull(found.Message)}))
	case found.Woke:
		ctx.sayWord(&reply)
	default:
		ctx.say("no reply yet")
		ctx.say("%s", ctx.paint()(dim, "go on: inbox wait-reply --thread "+thread+" --after-event "+strconv.FormatInt(found.NextEventID, 10)))
	}
	if !found.Woke {
		return exitNoWork
	}
	if found.Receipt != "" { // none: it is no mail, or was read before
		verb := "ack"
		if printed.err != nil {
			verb = "release" // nobody got it
		}
		_, problem := b.ask("POST", taskPath(want.Agent, verb), map[string]string{"receipt": found.Receipt})
		if problem != nil && problem.code != "RECEIPT_LOST" {
			ctx.note("the broker could not be told that the reply was read, so it may come again as mail: %s", problem.Error())
		}
	}
	if printed.err != nil {
		return exitBroken
	}
	return exitDone
}

func orNull(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage("null")
	}
	return value
}
