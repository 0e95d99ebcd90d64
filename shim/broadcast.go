// broadcast: one message to many tasks, all or none.
package main

import "strings"

var broadcastOptions = joinOptions(
	[]option{{name: "--to", value: "TASKS", text: "a,b,c; or all: every task but the sender, the person and ended ones"}},
	contentOptions,
	[]option{
		{name: "--create", text: "declare tasks that are unknown"},
		{name: "--from", value: "SENDER", text: "only what the token allows: an operator may say task:NAME"},
	})

func init() {
	register(&command{
		name: "broadcast", group: "mail", summary: "Send one message to many tasks.",
		usage: "broadcast --to a,b|all TEXT [flags]",
		help: helpText("Every task gets a copy with an id of its own, or none does.", broadcastOptions,
			`inbox broadcast --to all "The schema changed: pull main." --priority high`,
			`inbox broadcast --to backend,frontend --topic build "The build is red."`),
		run: runBroadcast,
	})
}

func runBroadcast(ctx *context, args []string) int {
	read, problem := ctx.parse(broadcastOptions, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.get("--to") == "" {
		return ctx.invalid("Nobody is named to send to.", "Write --to a,b or --to all.")
	}
	var to any = "all"
	if read.get("--to") != "all" {
		var tasks []string
		for _, task := range strings.Split(read.get("--to"), ",") {
			task = strings.TrimSpace(task)
			if problem := checkTask(task); problem != nil {
				return ctx.fail(problem)
			}
			tasks = append(tasks, task)
		}
		to = tasks
	}
	message, problem := ctx.readContent(read, read.words)
	if problem != nil {
		return ctx.fail(problem)
	}
	message.To, message.Create, message.From = to, read.has("--create"), ctx.sender(read.get("--from"))
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	answer, problem := broker.ask("POST", "/v1/broadcast", message)
	if problem != nil {
		return ctx.fail(problem)
	}
	return ctx.saySentMany("broadcast", answer)
}
