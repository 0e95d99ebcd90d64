// fetch and list: the work there is for an agent, and all threads there are. Looking changes nothing.
package main

import (
	"net/url"
	"strconv"
	"strings"
)

var fetchOptions = []option{
	{name: "--status", value: "LIST", text: "pending,blocked and what was let go if not given"},
	limitOption,
	{name: "--unread", text: "only those with words of others that you have not marked read"},
}

var listOptions = []option{
	{name: "--status", value: "LIST", text: "only these: " + strings.Join(statuses, ",")},
	{name: "--created-by", value: "SENDER", text: "only theirs: leader, user"},
	{name: "--assigned-to", value: "TASK", text: "only what was meant for this one"},
	limitOption,
	{name: "--all", text: "every thread there is"},
}

func init() {
	register(&command{
		name: "fetch", group: "threads", summary: "Show the work there is for you.",
		usage: "fetch [--status pending,blocked] [--limit N] [--unread]",
		help: helpText("For a worker that looks for something to do: what is assigned to it, what anybody may take, and what another let go, most\n"+
			"urgent first. It changes nothing and grants nothing: `inbox claim` does. `inbox list` shows threads whatever their status.\n"+
			"Exit code 10: there is none; `inbox watch --status pending --after-event N` waits, with the next_event_id of fetch.",
			fetchOptions,
			`inbox fetch`,
			`inbox fetch --limit 1 --json`,
			`inbox fetch --agent backend --status blocked --unread`),
		run: runFetch,
	})
	register(&command{
		name: "list", group: "threads", summary: "List threads, whatever their status.",
		usage: "list [--status LIST] [--created-by SENDER] [--assigned-to TASK] [--limit N]",
		help: helpText("For whoever follows work: newest first; with an agent, those it has a part in. `inbox fetch` shows only what you may take\n"+
			"on, most urgent first; `inbox show --thread ID` shows one with all that was said.",
			listOptions,
			`inbox list`,
			`inbox list --created-by leader --status blocked,failed`,
			`inbox list --assigned-to backend --limit 5 --json`),
		run: runList,
	})
}

func runFetch(ctx *context, args []string) int {
	read, problem := ctx.parse(fetchOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	query, problem := threadQuery(read, 20)
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--unread") {
		query.Set("unread", "true")
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	agent, problem := broker.ownTask("")
	if problem != nil {
		return ctx.fail(problem)
	}
	query.Set("agent", agent)
	var found struct {
		Threads []thread `json:"threads"`
	}
	answer, problem := broker.read("GET", "/v1/threads/fetch?"+query.Encode(), nil, &found)
	if problem != nil {
		return ctx.failIn("", problem)
	}
	switch {
	case ctx.json:
		ctx.sayJSON("fetch", answer)
	case len(found.Threads) == 0:
		ctx.say("no work for %s", agent)
	default:
		ctx.sayThreads(found.Threads)
		ctx.say("\n%s", ctx.paint()(dim, "take one: inbox claim --thread "+found.Threads[0].ThreadID))
	}
	if len(found.Threads) == 0 {
		return exitNoWork
	}
	return exitDone
}

func runList(ctx *context, args []string) int {
	read, problem := ctx.parse(listOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	query, problem := threadQuery(read, 50)
	if problem != nil {
		return ctx.fail(problem)
	}
	if by := read.get("--created-by"); by != "" {
		if !isTask(strings.TrimPrefix(by, "task:")) {
			return ctx.invalid("--created-by cannot be `"+by+"`.", "It is a task, user or operator.")
		}
		query.Set("created_by", by)
	}
	if to := read.get("--assigned-to"); to != "" {
		if problem := checkTask(to); problem != nil {
			return ctx.fail(problem)
		}
		query.Set("assigned_to", to)
	}
	if agent := ctx.settings().task.value; agent != "" {
		if problem := checkTask(agent); problem != nil {
			return ctx.fail(problem)
		}
		query.Set("agent", agent)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	found, problem := broker.listThreads(query, read.has("--all"))
	if problem != nil {
		return ctx.failIn("", problem)
	}
	if ctx.json {
		ctx.sayJSON("list", jsonOf(found))
		return exitDone
	}
	if len(found.Threads) == 0 {
		ctx.say("no threads")
		return exitDone
	}
	threads := make([]thread, len(found.Threads))
	for at := range threads {
		if problem := understand(found.Threads[at], &threads[at]); problem != nil {
			return ctx.fail(problem)
		}
	}
	ctx.sayThreads(threads)
	ctx.sayMore(found.NextCursor)
	return exitDone
}

// threadList is a page of threads as it is passed on.
type threadList struct {
	Threads     rawList `json:"threads"`
	NextEventID int64   `json:"next_event_id"`
	NextCursor  *string `json:"next_cursor"`
}

// listThreads reads up to the limit, or to the end. The event number is the first page's: nothing after it is missed.
func (b *broker) listThreads(query url.Values, all bool) (*threadList, *problem) {
	made := &threadList{Threads: rawList{}}
	limit, _ := strconv.Atoi(query.Get("limit"))
	for {
		var page threadList
		if _, problem := b.read("GET", "/v1/threads?"+query.Encode(), nil, &page); problem != nil {
			return nil, problem
		}
		if made.NextEventID == 0 {
			made.NextEventID = page.NextEventID
		}
		made.Threads, made.NextCursor = append(made.Threads, page.Threads...), page.NextCursor
		if page.NextCursor == nil || !all && len(made.Threads) >= limit {
			return made, nil
		}
		query.Set("cursor", *page.NextCursor)
		if !all {
			query.Set("limit", strconv.Itoa(limit-len(made.Threads)))
		}
	}
}

// threadQuery are the flags that fetch and list share.
func threadQuery(read *arguments, usual int) (url.Values, *problem) {
	limit, problem := wholeNumber(read, "--limit", 1, 1000)
	if problem != nil {
		return nil, problem
	}
	if limit == 0 {
		limit = usual
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	named, problem := readStatuses(read)
	if len(named) > 0 {
		query.Set("status", strings.Join(named, ","))
	}
	return query, problem
}
