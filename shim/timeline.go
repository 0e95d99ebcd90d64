// timeline: what was sent to and by a task, newest first. Looking takes nothing.
package main

import (
	"encoding/json"
	"net/url"
	"strconv"
)

var timelineOptions = []option{
	{name: "--limit", value: "N", text: "rows at most (20)"},
	{name: "--all", text: "every row there is"},
	{name: "--state", value: "STATES", text: "only these: queued,in_flight,delivered,seen,expired,superseded,dead"},
	{name: "--sender", value: "SENDERS", text: "only theirs: user,task:backend"},
	{name: "--kind", value: "KINDS", text: "only these kinds, with commas"},
	{name: "--priority", value: "PRIORITIES", text: "only these, with commas"},
	{name: "--direction", value: "WAY", text: "only what came to the task, or what it sent", choices: []string{"in", "out"}},
	{name: "--thread", value: "ID", text: "only this thread"},
	{name: "--cursor", value: "CURSOR", text: "go on where another list ended (its next_cursor)"},
}

func init() {
	register(&command{
		name: "timeline", group: "mail", summary: "List what was sent to and by a task.",
		usage: "timeline [TASK] [flags]",
		help: helpText("Newest first. Looking takes nothing.", timelineOptions,
			`inbox timeline`,
			`inbox timeline backend --state queued,in_flight`,
			`inbox timeline --sender user --all --json`),
		run: runTimeline,
	})
}

func runTimeline(ctx *context, args []string) int {
	read, problem := ctx.parse(timelineOptions, args, 1)
	if problem != nil {
		return ctx.fail(problem)
	}
	limit, problem := wholeNumber(read, "--limit", 1, 1000)
	if problem != nil {
		return ctx.fail(problem)
	}
	if limit == 0 {
		limit = 20
	}
	if read.has("--all") {
		limit = 200
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
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for flag, name := range map[string]string{"--state": "state", "--sender": "sender", "--kind": "kind", "--priority": "priority",
		"--direction": "direction", "--thread": "thread_id", "--cursor": "cursor"} {
		if value := read.get(flag); value != "" {
			query.Set(name, value)
		}
	}
	raw, next, problem := broker.pages(taskPath(task, "messages"), query, "messages", limit, read.has("--all"))
	if problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("timeline", jsonOf(struct {
			Task       string  `json:"task"`
			Messages   rawList `json:"messages"`
			NextCursor *string `json:"next_cursor"`
		}{task, raw, next}))
		return exitDone
	}
	if len(raw) == 0 {
		ctx.say("nothing in the timeline of %s", task)
		return exitDone
	}
	var rows [][]cell
	for _, one := range raw {
		var m message
		if problem := understand(one, &m); problem != nil {
			return ctx.fail(problem)
		}
		rows = append(rows, []cell{
			{text: age(m.CreatedAtMs), colour: dim, right: true},
			{text: m.State, colour: stateColour(m.State)},
			{text: m.Priority, colour: priorityColour(m.Priority)},
			{text: m.from()},
			{text: m.Task},
			{text: m.MessageID, colour: dim},
			{text: m.title()},
		})
	}
	ctx.table([]string{"AGE", "STATE", "PRIORITY", "FROM", "TO", "ID", "ABOUT"}, rows)
	ctx.sayMore(next)
	return exitDone
}

// sayMore tells a person that a list goes on; beside it, so that the list stays a list.
func (ctx *context) sayMore(next *string) {
	if next != nil {
		ctx.note("there is more: --all lists it.")
	}
}

// pages reads a paged list: up to a limit, or to its end. A page may be shorter than asked for and not be the last.
func (b *broker) pages(path string, query url.Values, field string, limit int, all bool) (rawList, *string, *problem) {
	rows := rawList{}
	for {
		var page map[string]json.RawMessage
		if _, problem := b.read("GET", path+"?"+query.Encode(), nil, &page); problem != nil {
			return nil, nil, problem
		}
		var some rawList
		var next *string
		if json.Unmarshal(page[field], &some) != nil || json.Unmarshal(page["next_cursor"], &next) != nil {
			return nil, nil, refusal(200, nil)
		}
		rows = append(rows, some...)
		if next == nil || !all && len(rows) >= limit {
			return rows, next, nil
		}
		query.Set("cursor", *next)
		if !all {
			query.Set("limit", strconv.Itoa(limit-len(rows)))
		}
	}
}
