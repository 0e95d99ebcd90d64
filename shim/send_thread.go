// send, where it is about a thread: --subject opens one, --thread says a word in one.
package main

import (
	"strings"
	"unicode"
)

// mailOnly are the flags of send that have no meaning in a thread, whose messages neither expire nor replace each other.
var mailOnly = []string{"--ttl", "--topic", "--supersedes", "--spool"}

func (ctx *context) sendInThread(read *arguments) int {
	opens := read.has("--subject")
	if opens && read.has("--thread") {
		return ctx.invalid("--subject opens a thread and --thread names one that there is.", "Give one of them.")
	}
	refused := mailOnly
	if opens {
		refused = append([]string{"--reply-to"}, refused...)
	} else {
		refused = append([]string{"--run", "--task", "--create", "--await"}, refused...)
	}
	for _, flag := range refused {
		if read.has(flag) {
			where := "inside a thread"
			if opens {
				where = "for a new thread"
			}
			return ctx.invalid(flag+" has no meaning "+where+".", "Leave it out; --agent says who you are.")
		}
	}
	if subject := read.get("--subject"); opens && (strings.TrimSpace(subject) == "" || strings.ContainsFunc(subject, unicode.IsControl)) {
		return ctx.invalid("--subject is not one line of text.", "Give the rest with --body or --body-file.")
	}
	to, words, problem := recipient(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	said, problem := ctx.readContent(read, words)
	if problem != nil {
		return ctx.fail(problem)
	}
	if to != "" {
		said.To = to
	}
	if opens {
		return ctx.openThread(read, said)
	}
	thread, problem := theThread(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	said.ThreadID = ""
	if said.Kind == "" {
		said.Kind = "message"
	}
	if contains([]string{"task", "result", "help_request"}, said.Kind) {
		return ctx.invalid("A "+said.Kind+" is not said inside a thread.", "--kind is one of message, progress, question, answer, control, event.")
	}
	return ctx.sayInThread(read, thread, said)
}

func (ctx *context) openThread(read *arguments, said *content) int {
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	if said.From, problem = broker.voice(read.get("--from")); problem != nil {
		return ctx.fail(problem)
	}
	said.RunID, said.TaskID, said.Create = read.get("--run"), read.get("--task"), read.has("--create")
	answer, problem := broker.ask("POST", "/v1/threads", said)
	if problem != nil {
		return ctx.failIn("", problem)
	}
	return ctx.saySaid(read, "send", "opened", answer)
}

// sayInThread is reply, and send in a thread.
func (ctx *context) sayInThread(read *arguments, thread string, said *content) int {
	token, problem := readToken(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	if said.From, problem = broker.voice(read.get("--from")); problem != nil {
		return ctx.fail(problem)
	}
	// Who works on the thread speaks under its lease. Most that speak here do not, and need not be asked who they are.
	agent := strings.TrimPrefix(said.From, "task:")
	if agent == "" && hasLeases(broker.client.base, thread) {
		if agent, problem = broker.ownTask(""); problem != nil {
			agent = ""
		}
	}
	working := broker.workOf(agent, thread, token)
	if working.token > 0 {
		said.FencingToken = &working.token
	}
	answer, problem := working.write("reply", said)
	if problem != nil {
		return ctx.failIn(thread, problem)
	}
	return ctx.saySaid(read, ctx.command.name, "said in", answer)
}
