// watch: block until there is mail. It takes none; `inbox check` does.
package main

import (
	"strconv"
	"time"
)

var watchOptions = []option{
	{name: "--timeout", value: "SECONDS", text: "give up after this long, with exit code 10; without it, never"},
}

// awayMax is how long a broker may be away (it is being restarted) before the watch ends with an error.
const awayMax = 30 * time.Second

func init() {
	register(&command{
		name: "watch", group: "mail", summary: "Wait until there is mail.",
		usage: "watch [--timeout SECONDS]",
		help: helpText("It wakes at once when mail comes and says how much there is; it takes none.", watchOptions,
			`inbox watch && inbox check`,
			`inbox watch --timeout 300 --task backend`),
		run: runWatch,
	})
}

func runWatch(ctx *context, args []string) int {
	read, problem := ctx.parse(watchOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	var until time.Time
	if read.has("--timeout") {
		span, problem := readSpan("--timeout", read.get("--timeout"), "s")
		if problem != nil {
			return ctx.fail(problem)
		}
		until = time.Now().Add(span)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	task, problem := broker.ownTask("")
	if problem != nil {
		return ctx.fail(problem)
	}
	answeredAt := time.Now()
	for {
		left := waitAtOnce
		if !until.IsZero() {
			left = min(left, max(0, time.Until(until)))
		}
		began := time.Now()
		path := taskPath(task, "pending")
		if left > 0 {
			path += "?wait_ms=" + strconv.FormatInt(left.Milliseconds(), 10)
		}
		answer, problem, away := broker.askWaiting("GET", path, nil, left)
		over := !until.IsZero() && time.Now().After(until)
		if away && broker.reached && !over && time.Since(answeredAt) < awayMax {
			pauseUnlessWaited(began, time.Second)
			continue
		}
		if problem != nil {
			return ctx.fail(problem)
		}
		answeredAt = time.Now()
		var found pending
		if problem := understand(answer, &found); problem != nil {
			return ctx.fail(problem)
		}
		if found.Pending == 0 && !over {
			pauseUnlessWaited(began, left)
			continue
		}
		if ctx.json {
			ctx.sayJSON("watch", answer)
		} else {
			ctx.sayPending(&found)
		}
		if found.Pending == 0 {
			return exitNoWork
		}
		return exitDone
	}
}
