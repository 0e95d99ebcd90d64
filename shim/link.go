// link: tasks become each other's peers. The short form of `task link`, for the set-up of two agents that work together.
package main

func init() {
	register(&command{
		name: "link", group: "set-up", summary: "Make tasks each other's peers.",
		usage: "link A B…",
		help: helpText("Peers reach each other without knowing names (`inbox peer`, `send_to_peer`), and are told of each other when a session\n"+
			"starts. One that is not declared yet becomes so, and collects mail.", nil,
			`inbox link backend frontend`,
			`inbox link backend frontend tests`),
		run: runLink,
	})
}

func runLink(ctx *context, args []string) int {
	read, problem := ctx.parse(nil, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	if len(read.words) < 2 {
		return ctx.invalid("Two tasks or more are linked.", "Usage: inbox "+ctx.command.usage)
	}
	for at, name := range read.words {
		if problem := checkTask(name); problem != nil {
			return ctx.fail(problem)
		}
		if contains(read.words[:at], name) {
			return ctx.invalid("`"+name+"` is named twice.", "A task is not its own peer.")
		}
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	// The first is asked about the others, so it has to be there.
	if _, problem := broker.ask("POST", "/v1/tasks", map[string]any{"task": read.words[0], "title": "", "peers": []string{}}); problem != nil {
		return ctx.fail(problem)
	}
	return linkTasks(broker, read, read.words)
}
