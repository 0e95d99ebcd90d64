// tasks and task: who is there, and declaring, linking and removing them.
package main

import (
	"net/url"
	"strconv"
	"strings"
)

var tasksOptions = []option{
	{name: "--state", value: "STATE", text: "only these", choices: []string{"queued", "active", "idle", "waiting", "terminated"}},
	{name: "--limit", value: "N", text: "rows at most (100)"},
	{name: "--all", text: "every task there is"},
}

var taskOptions = []option{
	{name: "--title", value: "TEXT", text: "declare: what the task is about"},
	{name: "--peer", value: "TASK", text: "declare: link it to this one; may be repeated", many: true},
	{name: "--force", text: "remove: even if it has mail that nobody got"},
}

func init() {
	register(&command{
		name: "tasks", group: "tasks", summary: "List the tasks, most urgent first.",
		usage: "tasks [--state STATE] [flags]",
		help: helpText("A task is an address with an inbox; `user` is the person's own.", tasksOptions,
			`inbox tasks`,
			`inbox tasks --state waiting`,
			`inbox tasks --all --json`),
		run: runTasks,
	})
	register(&command{
		name: "task", group: "tasks", summary: "Declare, link or remove a task.",
		usage: "task declare NAME [--title TEXT] [--peer TASK] | task link A B… | task remove NAME [--force]",
		help: helpText("declare  give a task an inbox; saying it again changes only what is said\n"+
			"link     make tasks each other's peers, so that `inbox peer` reaches them\n"+
			"remove   take it away, with its inbox", taskOptions,
			`inbox task declare backend --title "The API" --peer frontend`,
			`inbox task link backend frontend tests`,
			`inbox task remove backend --force`),
		run: runTask,
	})
}

type taskRow struct {
	Task           string   `json:"task"`
	Title          string   `json:"title"`
	State          string   `json:"state"`
	Peers          []string `json:"peers"`
	Pending        int      `json:"pending"`
	Urgent         int      `json:"urgent"`
	Held           int      `json:"held"`
	Dead           int      `json:"dead"`
	WaitingFor     []string `json:"waiting_for"`
	WaitsForPerson string   `json:"waits_for_person"`
	Session        string   `json:"session"`
	Machine        string   `json:"machine"`
	Host           string   `json:"host"`
	LastHeardMs    int64    `json:"last_heard_ms"`
}

func runTasks(ctx *context, args []string) int {
	read, problem := ctx.parse(tasksOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	limit, problem := wholeNumber(read, "--limit", 1, 1000)
	if problem != nil {
		return ctx.fail(problem)
	}
	if limit == 0 {
		limit = 100
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if state := read.get("--state"); state != "" {
		query.Set("state", state)
	}
	raw, next, problem := broker.pages("/v1/tasks", query, "tasks", limit, read.has("--all"))
	if problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("tasks", jsonOf(struct {
			Tasks      rawList `json:"tasks"`
			NextCursor *string `json:"next_cursor"`
		}{raw, next}))
		return exitDone
	}
	if len(raw) == 0 {
		ctx.say("no tasks; `inbox task declare NAME` makes one")
		return exitDone
	}
	var rows [][]cell
	for _, one := range raw {
		var task taskRow
		if problem := understand(one, &task); problem != nil {
			return ctx.fail(problem)
		}
		rows = append(rows, task.cells())
	}
	ctx.table([]string{"TASK", "STATE", "MAIL", "URGENT", "HEARD", "PEERS", "ABOUT"}, rows)
	ctx.sayMore(next)
	return exitDone
}

func (t *taskRow) cells() []cell {
	heard, mail, urgent := "–", plain, plain
	if t.LastHeardMs > 0 {
		heard = age(t.LastHeardMs)
	}
	if t.Pending > 0 {
		mail = bold
	}
	if t.Urgent > 0 {
		urgent = red
	}
	about := []string{}
	if t.WaitsForPerson != "" {
		about = append(about, "asks the person: "+t.WaitsForPerson)
	}
	if len(t.WaitingFor) > 0 {
		about = append(about, "waits for "+counted(len(t.WaitingFor), "answer"))
	}
	if t.Dead > 0 {
		about = append(about, counted(t.Dead, "dead letter"))
	}
	if t.Title != "" {
		about = append(about, t.Title)
	}
	return []cell{
		{text: t.Task, colour: bold},
		{text: t.State, colour: stateColour(t.State)},
		{text: strconv.Itoa(t.Pending), colour: mail, right: true},
		{text: strconv.Itoa(t.Urgent), colour: urgent, right: true},
		{text: heard, colour: dim, right: true},
		{text: strings.Join(t.Peers, ",")},
		{text: strings.Join(about, " · ")},
	}
}

func runTask(ctx *context, args []string) int {
	read, problem := ctx.parse(taskOptions, args, -1)
	if problem != nil {
		return ctx.fail(problem)
	}
	verbs := map[string]func(*broker, *arguments, []string) int{
		"declare": declareTask, "link": linkTasks, "remove": removeTask,
	}
	if len(read.words) == 0 {
		return ctx.invalid("`inbox task` needs a word more.", "Usage: inbox "+ctx.command.usage)
	}
	verb, known := verbs[read.words[0]]
	if !known {
		hint := "It takes declare, link and remove; `inbox tasks` lists them."
		if near := nearest(read.words[0], []string{"declare", "link", "remove"}); near != "" {
			hint = "Did you mean `inbox task " + near + "`?"
		}
		return ctx.invalid("`inbox task` has no `"+read.words[0]+"`.", hint)
	}
	for flag, of := range map[string]string{"--title": "declare", "--peer": "declare", "--force": "remove"} {
		if read.has(flag) && read.words[0] != of {
			return ctx.invalid(flag+" is a flag of `inbox task "+of+"`.", "Leave it out.")
		}
	}
	names := read.words[1:]
	if read.words[0] == "link" && len(names) < 2 || read.words[0] != "link" && len(names) != 1 {
		return ctx.invalid("That is not how `inbox task "+read.words[0]+"` is called.", "Usage: inbox "+ctx.command.usage)
	}
	for _, name := range append(names, read.all("--peer")...) {
		if problem := checkTask(name); problem != nil {
			return ctx.fail(problem)
		}
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	return verb(broker, read, names)
}

func declareTask(broker *broker, read *arguments, names []string) int {
	ctx := broker.ctx
	peers := read.all("--peer")
	if peers == nil {
		peers = []string{}
	}
	var done struct {
		Task    taskRow `json:"task"`
		Created bool    `json:"created"`
	}
	answer, problem := broker.read("POST", "/v1/tasks", map[string]any{
		"task": names[0], "title": read.get("--title"), "peers": peers,
	}, &done)
	if problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("task declare", answer)
		return exitDone
	}
	said := "declared " + names[0]
	if !done.Created {
		said = names[0] + " was declared before and is " + done.Task.State
	}
	ctx.say("%s%s", said, peersOf(&done.Task))
	return exitDone
}

func linkTasks(broker *broker, _ *arguments, names []string) int {
	ctx := broker.ctx
	// Each with all that come after it: everybody knows everybody.
	var last []byte
	for at := range names[:len(names)-1] {
		var problem *problem
		last, problem = broker.ask("POST", taskPath(names[at], "peers"), map[string]any{"peers": names[at+1:]})
		if problem != nil {
			return ctx.fail(problem)
		}
	}
	if ctx.json {
		ctx.sayJSON("task link", jsonOf(map[string]any{"linked": names}))
		return exitDone
	}
	var task taskRow
	if problem := understand(last, &task); problem != nil {
		return ctx.fail(problem)
	}
	ctx.say("linked %s", strings.Join(names, ", "))
	return exitDone
}

func removeTask(broker *broker, read *arguments, names []string) int {
	ctx := broker.ctx
	path := taskPath(names[0], "")
	if read.has("--force") {
		path += "?force=true"
	}
	// Asked once: a lost answer would make the second try say that there is no such task.
	answer, problem := broker.once("DELETE", path, nil)
	if problem != nil {
		if problem.code == "TASK_NOT_EMPTY" && problem.hint == "" {
			problem.hint = "`inbox task remove " + names[0] + " --force` removes it with its mail."
		}
		return ctx.fail(problem)
	}
	var done struct {
		Dropped int `json:"dropped"`
	}
	if problem := understand(answer, &done); problem != nil {
		return ctx.fail(problem)
	}
	if ctx.json {
		ctx.sayJSON("task remove", answer)
		return exitDone
	}
	if done.Dropped > 0 {
		ctx.say("removed %s and %s that nobody got", names[0], counted(done.Dropped, "message"))
	} else {
		ctx.say("removed %s", names[0])
	}
	return exitDone
}

func peersOf(task *taskRow) string {
	if len(task.Peers) == 0 {
		return ""
	}
	return "; its peers: " + strings.Join(task.Peers, ", ")
}
