// show: one message whole, and every step it took. Looking takes nothing.
package main

import (
	"encoding/json"
	"net/url"
)

var showOptions = []option{
	{name: "--thread", value: "ID", text: "show this thread: how it stands, and all that was said in it"},
	{name: "--mark-read", text: "with --thread: what is shown counts as read"},
}

func init() {
	register(&command{
		name: "show", group: "mail", summary: "Show one message, or one thread, whole.",
		usage: "show MESSAGE_ID | show --thread ID [--mark-read]",
		help: helpText("A message with every step it took, or a thread with all that was said in it and the artifacts of each message. Looking\n"+
			"takes nothing, and marks nothing as read unless that is said. `inbox timeline` and `inbox list` show many in one line each.",
			showOptions,
			`inbox show 0192f3a1-7c3e-7b6a-9a51-4c0f3f1b2d10`,
			`inbox show --thread 0192f3a1-7c3e-7b6a-9a51-4c0f3f1b2d10 --mark-read`,
			`inbox show --thread 0192f3a1-7c3e-7b6a-9a51-4c0f3f1b2d10 --json`),
		run: runShow,
	})
}

func runShow(ctx *context, args []string) int {
	read, problem := ctx.parse(showOptions, args, 1)
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--thread") {
		if len(read.words) > 0 {
			return ctx.invalid("A message and a thread are named.", "Show one of them.")
		}
		return ctx.showThread(read)
	}
	if read.has("--mark-read") {
		return ctx.invalid("--mark-read is for a thread, and none is named.", "Give --thread ID.")
	}
	if len(read.words) == 0 {
		return ctx.invalid("No message is named.", "Write `inbox show MESSAGE_ID` or `inbox show --thread ID`; `inbox timeline` and `inbox list` show them.")
	}
	id := read.words[0]
	if !isID(id) {
		return ctx.invalid("`"+id+"` cannot be a message's id.", "`inbox timeline` lists them.")
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	var found struct {
		Message message `json:"message"`
		History []struct {
			AtMs   int64  `json:"at_ms"`
			State  string `json:"state"`
			Detail string `json:"detail"`
		} `json:"history"`
	}
	answer, problem := broker.read("GET", "/v1/messages/"+url.PathEscape(id), nil, &found)
	if problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("show", answer)
		return exitDone
	}
	paint := ctx.paint()
	field := func(name, value string) {
		if value != "" {
			ctx.say("%s %s", paint(dim, pad(name, 10)), value)
		}
	}
	m := &found.Message
	field("message", m.MessageID)
	field("from", m.from())
	field("to", oneLine(m.Task))
	field("state", paint(stateColour(m.State), m.State)+because(m))
	field("priority", paint(priorityColour(m.Priority), m.Priority))
	field("kind", m.Kind)
	field("sent", moment(m.CreatedAtMs)+" ("+ago(m.CreatedAtMs)+")")
	if m.ExpiresAtMs > 0 {
		field("expires", moment(m.ExpiresAtMs))
	}
	field("answers", m.ReplyTo)
	if m.AwaitingResponse {
		field("waits", "for an answer")
	}
	field("topic", oneLine(m.Topic))
	field("thread", m.ThreadID)
	ctx.say("")
	ctx.sayContent(m)
	ctx.say("")
	rows := make([][]cell, 0, len(found.History))
	for _, step := range found.History {
		rows = append(rows, []cell{{text: moment(step.AtMs), colour: dim},
			{text: step.State, colour: stateColour(step.State)}, {text: step.Detail}})
	}
	ctx.table([]string{"WHEN", "STATE", "BY"}, rows)
	return exitDone
}

func because(m *message) string {
	switch {
	case m.Reason != "":
		return ": " + oneLine(m.Reason)
	case m.HeldBy != "":
		return " to " + oneLine(m.HeldBy)
	case m.DeliveredTo != "":
		return " by " + oneLine(m.DeliveredTo)
	}
	return ""
}

// pad fills a word up to a width.
func pad(text string, width int) string {
	for columns(text) < width {
		text += " "
	}
	return text
}

// rawList is a list whose items are passed on as they are.
type rawList []json.RawMessage
