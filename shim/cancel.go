// cancel: the thread is no longer wanted.
package main

import "unicode/utf8"

var cancelOptions = []option{
	threadOption,
	{name: "--reason", value: "TEXT", text: "why, for whoever works on it"},
	{name: "--from", value: "SENDER", text: "in whose name: only what the token allows"},
	idOption,
}

func init() {
	register(&command{
		name: "cancel", group: "threads", summary: "Call a thread off; whoever works on it is told.",
		usage: "cancel --thread ID [--reason TEXT]",
		help: helpText("For whoever opened the thread. It is over for good: the worker gets the reason as mail, its waiting ends, and it cannot write\n"+
			"any more. A worker that gives up says `inbox fail`.",
			cancelOptions,
			`inbox cancel --thread 0192f3a1 --reason "Fixed upstream."`,
			`inbox cancel --thread 0192f3a1 --from leader --json`),
		run: runCancel,
	})
}

func runCancel(ctx *context, args []string) int {
	read, problem := ctx.parse(cancelOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	thread, problem := theThread(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	id, problem := newID(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	reason := read.get("--reason")
	if !utf8.ValidString(reason) || utf8.RuneCountInString(reason) > reasonMax {
		return ctx.invalid("--reason is too long, or not text in UTF-8.", "Say it in a few sentences.")
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	from, problem := broker.voice(read.get("--from"))
	if problem != nil {
		return ctx.fail(problem)
	}
	answer, problem := broker.ask("POST", threadPath(thread, "cancel"), struct {
		MessageID string `json:"message_id"`
		Reason    string `json:"reason"`
		From      string `json:"from,omitempty"`
	}{id, reason, from})
	if problem != nil {
		return ctx.failIn(thread, problem)
	}
	return ctx.saySaid(read, "cancel", "cancelled", answer)
}
