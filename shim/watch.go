// watch: block until there is mail, which it does not take (`inbox check` does), or until something happens to threads.
package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

var watchOptions = []option{
	{name: "--threads", text: "wait for something to happen to threads instead of for mail"},
	{name: "--status", value: "LIST", text: "of threads: only what leaves one in these: blocked,done,failed"},
	{name: "--after-event", value: "N", text: "of threads: what happened since then counts too; the next_event_id of fetch, list or watch"},
	{name: "--timeout-seconds", value: "N", text: "give up after this long, with exit code 10; without it, never"},
	{name: "--timeout", value: "SECONDS", text: "the same, shorter to type"},
}

// awayMax is how long a broker may be away (it is being restarted) before a wait ends with an error.
const awayMax = 30 * time.Second

// patience is for a broker that was there and is away: how long it has been.
type patience struct{ since time.Time }

// lasts says whether to ask again; a broker that answers starts it anew.
func (p *patience) lasts(b *broker, away bool) bool {
	if !away {
		p.since = time.Time{}
		return false
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return b.reached && time.Since(p.since) < awayMax
}

func init() {
	register(&command{
		name: "watch", group: "mail", summary: "Wait until there is mail, or something happens to threads.",
		usage: "watch [--timeout-seconds N] | watch --threads [--status LIST] [--after-event N] [--timeout-seconds N]",
		help: helpText("Bare, it wakes when mail comes and says how much there is; it takes none. With --threads, --status or --after-event it is\n"+
			"for whoever follows work: it prints what happened to threads, with an agent only to those it has a part in and those\n"+
			"anybody may take. Give its next_event_id to the next call as --after-event, and nothing in between is missed.\n"+
			"A worker that asked something waits with `inbox wait-reply`, which returns the answer itself.", watchOptions,
			`inbox watch && inbox check`,
			`inbox watch --timeout-seconds 300 --agent backend`,
			`inbox watch --status blocked,done,failed --after-event 1207 --json`),
		run: runWatch,
	})
}

func runWatch(ctx *context, args []string) int {
	read, problem := ctx.parse(watchOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--timeout") && read.has("--timeout-seconds") {
		return ctx.invalid("--timeout and --timeout-seconds are one flag.", "Give one of them.")
	}
	var until time.Time
	for _, flag := range []string{"--timeout", "--timeout-seconds"} {
		if read.has(flag) {
			span, problem := readSpan(flag, read.get(flag), "s")
			if problem != nil {
				return ctx.fail(problem)
			}
			until = time.Now().Add(span)
		}
	}
	if read.has("--threads") || read.has("--status") || read.has("--after-event") {
		return ctx.watchThreads(read, until)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	task, problem := broker.ownTask("")
	if problem != nil {
		return ctx.fail(problem)
	}
	var patience patience
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
		if patience.lasts(broker, away) && !over {
			pauseUnlessWaited(began, time.Second)
			continue
		}
		if problem != nil {
			return ctx.fail(problem)
		}
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

type watchRequest struct {
	Agent      string   `json:"agent,omitempty"`
	Status     []string `json:"status,omitempty"`
	AfterEvent *int64   `json:"after_event,omitempty"`
	WaitMs     int64    `json:"wait_ms"`
}

// happened is what the broker answers to it.
type happened struct {
	Woke        bool  `json:"woke"`
	NextEventID int64 `json:"next_event_id"`
	Events      []struct {
		ID       json.Number `json:"id"`
		AtMs     float64     `json:"at_ms"`
		Type     string      `json:"type"`
		ThreadID string      `json:"thread_id"`
		Status   string      `json:"status"`
		Sender   string      `json:"sender"`
		Agent    string      `json:"agent"`
	} `json:"events"`
	Reset bool `json:"reset"`
}

// watchThreads looks first and then waits, so that a broker that dies meanwhile costs no event.
func (ctx *context) watchThreads(read *arguments, until time.Time) int {
	want := watchRequest{Agent: ctx.settings().task.value}
	var problem *problem
	if want.Status, problem = readStatuses(read); problem != nil {
		return ctx.fail(problem)
	}
	if want.AfterEvent, problem = readEvent(read); problem != nil {
		return ctx.fail(problem)
	}
	if want.Agent != "" {
		if problem := checkTask(want.Agent); problem != nil {
			return ctx.fail(problem)
		}
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	var patience patience
	var wait time.Duration
	for {
		began := time.Now()
		want.WaitMs = wait.Milliseconds()
		answer, problem, away := broker.askWaiting("POST", "/v1/threads/watch", want, wait)
		over := !until.IsZero() && !time.Now().Before(until)
		if patience.lasts(broker, away) && !over {
			pauseUnlessWaited(began, time.Second)
			continue
		}
		if problem != nil {
			return ctx.failIn("", problem)
		}
		var found happened
		if problem := understand(answer, &found); problem != nil {
			return ctx.fail(problem)
		}
		if !found.Woke && !over {
			pauseUnlessWaited(began, wait)
			want.AfterEvent, wait = &found.NextEventID, longPoll(until)
			continue
		}
		if ctx.json {
			ctx.sayJSON("watch", answer)
		} else {
			ctx.sayHappened(&found)
		}
		if !found.Woke {
			return exitNoWork
		}
		return exitDone
	}
}

// longPollMost is how long one request lets the broker wait where nothing is held for it meanwhile.
const longPollMost = 50 * time.Second

// longPoll is how long the next request may wait; the zero time is no limit.
func longPoll(until time.Time) time.Duration {
	if until.IsZero() {
		return longPollMost
	}
	return min(longPollMost, max(0, time.Until(until)))
}

// readEvent is the event to go on from; nil when none was named.
func readEvent(read *arguments) (*int64, *problem) {
	if !read.has("--after-event") {
		return nil, nil
	}
	number, err := strconv.ParseInt(read.get("--after-event"), 10, 64)
	if err != nil || number < 0 || number > 1e15 {
		return nil, invalidInput("--after-event cannot be `"+read.get("--after-event")+"`.", "It is the next_event_id of an earlier answer.")
	}
	return &number, nil
}

func (ctx *context) sayHappened(found *happened) {
	if !found.Woke {
		ctx.say("nothing happened")
	}
	if found.Reset {
		ctx.say("the log no longer reaches back so far: look with inbox list")
	}
	if len(found.Events) > 0 {
		rows := make([][]cell, 0, len(found.Events))
		for _, one := range found.Events {
			by := one.Sender
			if by == "" {
				by = one.Agent
			}
			rows = append(rows, []cell{
				{text: age(int64(one.AtMs)), colour: dim, right: true},
				{text: strings.ReplaceAll(strings.TrimPrefix(one.Type, "thread_"), "_", " "), colour: bold},
				{text: one.Status, colour: statusColour(one.Status)},
				{text: one.ThreadID, colour: dim},
				{text: strings.TrimPrefix(by, "task:")},
			})
		}
		ctx.table([]string{"AGE", "WHAT", "STATUS", "THREAD", "BY"}, rows)
	}
	ctx.say("%s", ctx.paint()(dim, "go on: inbox watch --after-event "+strconv.FormatInt(found.NextEventID, 10)))
}
