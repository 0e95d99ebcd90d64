// update, done and fail: what the worker says of its thread, under its lease.
package main

import "strings"

var updateOptions = joinOptions([]option{
	threadOption,
	{name: "--status", value: "STATUS", text: "in_progress if not given; blocked asks what is missing", choices: []string{"in_progress", "blocked"}},
}, wordOptions, []option{fencingOption})

var finishOptions = joinOptions([]option{threadOption}, wordOptions, []option{fencingOption})

func init() {
	register(&command{
		name: "update", group: "threads", summary: "Say how your thread goes, or what it needs.",
		usage: "update --thread ID [TEXT] [--status in_progress|blocked] [flags]",
		help: helpText("For the worker that holds the thread. in_progress is a sign of life with a word about it, for whoever looks; blocked\n"+
			"asks a question, which is mail to whoever opened the thread: then wait with `inbox wait-reply`. It changes the status;\n"+
			"`inbox reply` only says something. It does not lengthen the lease: `inbox renew` does.",
			updateOptions,
			`inbox update --thread 0192f3a1 --summary "The test fails here too; looking at the cookie."`,
			`inbox update --thread 0192f3a1 --status blocked --body "Which Safari?" && inbox wait-reply --thread 0192f3a1`,
			`inbox update --thread 0192f3a1 --summary "Half of it" --artifact log.txt --artifact-kind log --artifact a.patch`),
		run: runUpdate,
	})
	register(&command{
		name: "done", group: "threads", summary: "Finish your thread with a result.",
		usage: "done --thread ID --summary TEXT [flags]",
		help: helpText("For the worker that holds the thread, when the work is done. The summary is mail to whoever opened it, and the thread is\n"+
			"over for good. `inbox fail` is for work that cannot be done; `inbox cancel` is the leader's.",
			finishOptions,
			`inbox done --thread 0192f3a1 --summary "Fixed in 3f2a: the cookie lacked SameSite."`,
			`inbox done --thread 0192f3a1 --summary "Fixed" --body-file report.md --artifact fix.patch --artifact-kind patch`),
		run: func(ctx *context, args []string) int { return runFinish(ctx, args, "done") },
	})
	register(&command{
		name: "fail", group: "threads", summary: "Give your thread up, and say why.",
		usage: "fail --thread ID --summary TEXT [flags]",
		help: helpText("For the worker that holds the thread, when it cannot be done. The summary is mail to whoever opened it, and the thread is\n"+
			"over for good. If an answer would help, ask instead: `inbox update --status blocked`.",
			finishOptions,
			`inbox fail --thread 0192f3a1 --summary "Safari 17 is not to be had here."`,
			`inbox fail --thread 0192f3a1 --summary "It does not build" --artifact build.log --artifact-kind log`),
		run: func(ctx *context, args []string) int { return runFinish(ctx, args, "failed") },
	})
}

func runUpdate(ctx *context, args []string) int {
	read, problem := ctx.parse(updateOptions, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	said, problem := ctx.readWords(read, read.words)
	if problem != nil {
		return ctx.fail(problem)
	}
	said.Status = read.get("--status")
	if said.Status == "" {
		said.Status = "in_progress"
	}
	if said.Status == "blocked" && strings.TrimSpace(said.Body+said.Summary) == "" {
		return ctx.invalid("blocked needs a question.", "Say with --summary or --body what is missing.")
	}
	return ctx.writeWork(read, "update", said.Status, said)
}

func runFinish(ctx *context, args []string, status string) int {
	read, problem := ctx.parse(finishOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	said, problem := ctx.readWords(read, nil)
	if problem != nil {
		return ctx.fail(problem)
	}
	if strings.TrimSpace(said.Summary) == "" {
		return ctx.invalid("The end of a thread needs a summary.", "Give --summary TEXT: one sentence for whoever opened it.")
	}
	return ctx.writeWork(read, ctx.command.name, status, said)
}

// writeWork sends what a worker says under its lease; at the end of the thread the lease is forgotten.
func (ctx *context) writeWork(read *arguments, verb, status string, said *content) int {
	working, problem := ctx.atWork(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	said.Agent, said.FencingToken = working.agent, &working.token
	answer, problem := working.write(verb, said)
	if problem != nil {
		return ctx.failIn(working.thread, problem)
	}
	if verb != "update" {
		working.kept.forget()
	}
	return ctx.saySaid(read, verb, status, answer)
}
