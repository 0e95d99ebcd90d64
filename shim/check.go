// check: take the mail of an inbox and print it. Printed means delivered: what was taken does not come again.
package main

import (
	"os"
	"os/user"
	"strings"
	"time"
)

var checkOptions = []option{
	{name: "--max", value: "N", text: "messages at most (20)"},
	{name: "--wait", value: "SECONDS", text: "if there is none, wait this long for one"},
	{name: "--min-priority", value: "P", text: "leave what is less urgent where it is", choices: priorities},
}

func init() {
	register(&command{
		name: "check", group: "mail", summary: "Take the mail that waits in your inbox.",
		usage: "check [--wait SECONDS] [flags]",
		help: helpText("Most urgent first. What is printed counts as delivered; `inbox pending` and `inbox timeline` only look.\n"+
			"Every line that begins with `| ` is the sender's, not inbox's. Exit code 10: there is no mail.",
			checkOptions,
			`inbox check`,
			`inbox check --wait 60 --agent backend`,
			`inbox check --min-priority high --json`),
		run: runCheck,
	})
}

type pullRequest struct {
	PullID      string `json:"pull_id"`
	Session     string `json:"session"`
	Max         int    `json:"max,omitempty"`
	MinPriority string `json:"min_priority,omitempty"`
	WaitMs      int64  `json:"wait_ms,omitempty"`
	Ack         bool   `json:"ack"`
}

type pulled struct {
	Messages []message `json:"messages"`
	Pending  int       `json:"pending"`
}

// waitAtOnce is how long one request lets the broker wait; a longer wait is several of them.
const waitAtOnce = 30 * time.Second

func runCheck(ctx *context, args []string) int {
	read, problem := ctx.parse(checkOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	most, problem := wholeNumber(read, "--max", 1, 1000)
	if problem != nil {
		return ctx.fail(problem)
	}
	var wait time.Duration
	if read.has("--wait") {
		if wait, problem = readSpan("--wait", read.get("--wait"), "s"); problem != nil {
			return ctx.fail(problem)
		}
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	task, problem := broker.ownTask("")
	if problem != nil {
		return ctx.fail(problem)
	}
	until := time.Now().Add(wait)
	for {
		left := min(max(0, time.Until(until)), waitAtOnce)
		began := time.Now()
		answer, problem, _ := broker.askWaiting("POST", taskPath(task, "pull"), pullRequest{
			PullID: mintID(), Session: cliSession(), Max: most, MinPriority: read.get("--min-priority"),
			WaitMs: left.Milliseconds(), Ack: true,
		}, left)
		if problem != nil {
			return ctx.fail(problem)
		}
		var got pulled
		if problem := understand(answer, &got); problem != nil {
			return ctx.fail(problem)
		}
		if len(got.Messages) == 0 && time.Until(until) > 0 {
			pauseUnlessWaited(began, left)
			continue
		}
		if ctx.json {
			ctx.sayJSON("check", answer)
		} else {
			ctx.sayMail(task, &got)
		}
		if len(got.Messages) == 0 {
			return exitNoWork
		}
		return exitDone
	}
}

// pauseUnlessWaited keeps a broker that answers at once (it is about to stop) from being asked without end.
func pauseUnlessWaited(began time.Time, asked time.Duration) {
	if time.Since(began) < asked/2 {
		time.Sleep(min(tryPause, asked))
	}
}

func (ctx *context) sayMail(task string, got *pulled) {
	paint := ctx.paint()
	if len(got.Messages) == 0 {
		if got.Pending > 0 {
			ctx.say("no such mail for %s (%s less urgent)", task, counted(got.Pending, "message"))
		} else {
			ctx.say("no mail for %s", task)
		}
		return
	}
	ctx.say("%s", paint(bold, counted(len(got.Messages), "message")+" for "+task))
	for at := range got.Messages {
		one := &got.Messages[at]
		ctx.say("")
		head := one.Kind + " from " + one.from()
		if one.Priority != "normal" {
			head = one.Priority + " " + head
		}
		marks := []string{ago(one.CreatedAtMs), one.MessageID}
		if one.ReplyTo != "" {
			marks = append(marks, "answers "+one.ReplyTo)
		}
		if one.Attempts > 1 {
			marks = append(marks, "came before, perhaps unread")
		}
		ctx.say("%s %s", paint(colourOr(priorityColour(one.Priority), bold), head), paint(dim, "· "+strings.Join(marks, " · ")))
		ctx.sayContent(one)
		switch {
		case one.ThreadID != "" && one.ThreadID == one.MessageID:
			ctx.say("to take it on: inbox claim --thread %s", one.ThreadID)
		case one.ThreadID != "" && one.AwaitingResponse:
			ctx.say("waits for an answer: inbox reply --thread %s TEXT", one.ThreadID)
		case one.AwaitingResponse && one.answerTo() != "":
			ctx.say("waits for an answer: inbox send %s --reply-to %s TEXT", one.answerTo(), one.MessageID)
		}
	}
	if got.Pending > 0 {
		ctx.say("\n%s still waiting: inbox check", counted(got.Pending, "message"))
	}
}

func colourOr(colour, otherwise string) string {
	if colour == plain {
		return otherwise
	}
	return colour
}

// cliSession is who takes mail when no agent's session does: one name for one person on one machine.
func cliSession() string {
	name := os.Getenv("INBOX_SESSION")
	if name == "" {
		who := os.Getenv("USER")
		if known, err := user.Current(); err == nil {
			who = known.Username
		}
		machine, _ := os.Hostname()
		name = "cli-" + who + "@" + machine
	}
	return sessionName(name)
}

// sessionName keeps to the grammar of a session's name.
func sessionName(name string) string {
	name = strings.Map(func(letter rune) rune {
		if letter < 0x80 && (isLetterOrDigit(byte(letter)) || strings.ContainsRune("._:@/-", letter)) {
			return letter
		}
		return '-'
	}, name)
	if name == "" || !isLetterOrDigit(name[0]) {
		name = "s" + name
	}
	return name[:min(len(name), 128)]
}
