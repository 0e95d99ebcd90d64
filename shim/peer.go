// peer: send in the task's own name to its peers, without knowing what they are called.
package main

var peerOptions = joinOptions([]option{{name: "--to", value: "PEER", text: "one of them; none: all"}}, contentOptions)

func init() {
	register(&command{
		name: "peer", group: "mail", summary: "Send a message to the task's peers.",
		usage: "peer TEXT [--to PEER] [flags]",
		help: helpText("Peers are tasks that were linked (`inbox task link`). One that has not started yet gets it when it does.",
			peerOptions,
			`inbox peer "The endpoint is ready: POST /v1/orders." --kind result`,
			`inbox peer --to frontend --reply-to 0192f3 "Yes, it is paged."`),
		run: runPeer,
	})
}

func runPeer(ctx *context, args []string) int {
	read, problem := ctx.parse(peerOptions, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	message, problem := ctx.readContent(read, read.words)
	if problem != nil {
		return ctx.fail(problem)
	}
	if to := read.get("--to"); to != "" {
		if problem := checkTask(to); problem != nil {
			return ctx.fail(problem)
		}
		message.To = to
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	task, problem := broker.ownTask("")
	if problem != nil {
		return ctx.fail(problem)
	}
	answer, problem := broker.ask("POST", taskPath(task, "peer-messages"), message)
	if problem != nil {
		return ctx.fail(problem)
	}
	return ctx.saySentMany("peer", answer)
}
