// pending: how much mail waits. Looking takes nothing.
package main

import "strconv"

func init() {
	register(&command{
		name: "pending", group: "mail", summary: "Count the mail that waits in an inbox.",
		usage: "pending [TASK]",
		help: helpText("Looking takes nothing. Exit code 10: nothing waits.", nil,
			`inbox pending`,
			`inbox pending backend`,
			`inbox pending --json`),
		run: runPending,
	})
}

type pending struct {
	Task       string         `json:"task"`
	Pending    int            `json:"pending"`
	Urgent     int            `json:"urgent"`
	ByPriority map[string]int `json:"by_priority"`
	Held       int            `json:"held"`
}

func runPending(ctx *context, args []string) int {
	read, problem := ctx.parse(nil, args, 1)
	if problem != nil {
		return ctx.fail(problem)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	given := ""
	if len(read.words) > 0 {
		given = read.words[0]
	}
	task, problem := broker.ownTask(given)
	if problem != nil {
		return ctx.fail(problem)
	}
	var found pending
	answer, problem := broker.read("GET", taskPath(task, "pending"), nil, &found)
	if problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("pending", answer)
	} else {
		ctx.sayPending(&found)
	}
	if found.Pending == 0 {
		return exitNoWork
	}
	return exitDone
}

func (ctx *context) sayPending(found *pending) {
	paint := ctx.paint()
	line := counted(found.Pending, "message") + " for " + found.Task
	for at := len(priorities) - 1; at >= 0; at-- {
		if number := found.ByPriority[priorities[at]]; number > 0 {
			line += " · " + paint(priorityColour(priorities[at]), strconv.Itoa(number)+" "+priorities[at])
		}
	}
	if found.Held > 0 {
		line += " · " + paint(dim, "handed over and not yet acked: "+counted(found.Held, "message"))
	}
	ctx.say("%s", line)
}
