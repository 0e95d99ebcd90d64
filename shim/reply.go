// reply: a word in a thread. It changes no status; whoever waits for it wakes.
package main

var replyOptions = joinOptions([]option{
	threadOption,
	{name: "--kind", value: "KIND", text: "answer if not given", choices: []string{"answer", "question", "progress", "control"}},
	{name: "--from", value: "SENDER", text: "in whose name: only what the token allows"},
	{name: "--to", value: "TASK", text: "whose mail it is; who works on the thread, or who opened it, if not given"},
	{name: "--reply-to", value: "ID", text: "the message it answers; the open question if not given"},
	{name: "--priority", value: "P", text: "urgent also stops the agent's next tool call", choices: priorities},
}, wordOptions, []option{fencingOption})

func init() {
	register(&command{
		name: "reply", group: "threads", summary: "Say a word in a thread: an answer, a question, a control.",
		usage: "reply --thread ID [TEXT] [--kind KIND] [flags]",
		help: helpText("For whoever answers or steers: an answer wakes the worker that waits for it. It changes no status and needs no lease.\n"+
			"The worker itself says how it goes with `inbox update`, which does change the status.",
			replyOptions,
			`inbox reply --thread 0192f3a1 --body "Safari 17.4, on the Mac."`,
			`inbox reply --thread 0192f3a1 --kind control --priority urgent --body "Stop: main is frozen."`,
			`inbox reply --thread 0192f3a1 --body-file answer.md --artifact schema.sql --artifact-kind sql`),
		run: runReply,
	})
}

func runReply(ctx *context, args []string) int {
	read, problem := ctx.parse(replyOptions, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	thread, problem := theThread(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	said, problem := ctx.readWords(read, read.words)
	if problem != nil {
		return ctx.fail(problem)
	}
	if !said.says() {
		return ctx.invalid("The reply says nothing.", "Give --body TEXT, --body-file FILE or --summary TEXT.")
	}
	said.Kind, said.ReplyTo, said.Priority = read.get("--kind"), read.get("--reply-to"), read.get("--priority")
	if said.Kind == "" {
		said.Kind = "answer"
	}
	if to := read.get("--to"); to != "" {
		if problem := checkTask(to); problem != nil {
			return ctx.fail(problem)
		}
		said.To = to
	}
	return ctx.sayInThread(read, thread, said)
}
