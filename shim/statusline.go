// statusline: one short line for a prompt or an agent's status bar. It never fails and never waits: whatever goes wrong,
// it prints nothing and ends with 0, because whoever shows the line has something better to show.
package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	statusWithin = 280 * time.Millisecond // the whole command, whatever hangs
	statusAnswer = 220 * time.Millisecond // the broker's answer
	statusNames  = 3                      // tasks that are named
)

func init() {
	register(&command{
		name: "statusline", group: "set-up", summary: "One short line about the mail, for a status bar.",
		usage: "statusline",
		calm:  true,
		help: helpText("With a task: its mail. Without one: everybody's, and who waits for an answer. It prints nothing when anything\n"+
			"is wrong, and ends within 0.3 s.", nil,
			`inbox statusline`,
			`inbox statusline --task backend`,
			`{"statusLine": {"type": "command", "command": "inbox statusline"}}   (in .claude/settings.json)`),
		run: runStatusline,
	})
}

func runStatusline(ctx *context, _ []string) int {
	began := time.Now()
	// A folder on a network that hangs, for one, is not covered by any time-out of ours.
	watchdog := time.AfterFunc(statusWithin, func() { os.Exit(exitDone) })
	defer watchdog.Stop()
	broker, problem := ctx.connect()
	if problem != nil {
		return exitDone
	}
	broker.tries, broker.timeout, broker.flushed = 1, statusAnswer, true
	line := ""
	if task := ctx.settings().task.value; task != "" {
		line = broker.statusOf(task)
	} else {
		line = broker.statusOfAll()
	}
	if line == "" {
		return exitDone
	}
	if ctx.json {
		ctx.sayJSON("statusline", jsonOf(map[string]string{"text": line}))
	} else {
		ctx.say("%s", line)
	}
	// What is left of the time goes to mail that was kept; being cut off in the middle does no harm.
	if left := statusWithin - time.Since(began) - 30*time.Millisecond; left > 50*time.Millisecond {
		broker.timeout = left
		broker.flush(0)
	}
	return exitDone
}

func (b *broker) statusOf(task string) string {
	var found pending
	if checkTask(task) != nil {
		return ""
	}
	if _, problem := b.read("GET", taskPath(task, "pending"), nil, &found); problem != nil {
		return ""
	}
	return mailStatus(found.Pending, found.Urgent)
}

func (b *broker) statusOfAll() string {
	var page struct {
		Tasks []taskRow `json:"tasks"`
	}
	if _, problem := b.read("GET", "/v1/tasks?limit=1000", nil, &page); problem != nil {
		return ""
	}
	return statusOfTasks(page.Tasks)
}

func statusOfTasks(tasks []taskRow) string {
	pending, urgent, own := 0, 0, 0
	var waiting []string
	for _, task := range tasks {
		pending += task.Pending
		urgent += task.Urgent
		if task.Task == "user" {
			own = task.Pending
		}
		if task.State == "waiting" {
			waiting = append(waiting, oneLine(task.Task))
		}
	}
	line := mailStatus(pending, urgent)
	if own > 0 {
		line += " · " + strconv.Itoa(own) + " for you"
	}
	if len(waiting) > 0 {
		more := ""
		if len(waiting) > statusNames {
			more = " +" + strconv.Itoa(len(waiting)-statusNames)
			waiting = waiting[:statusNames]
		}
		line += " · waiting: " + strings.Join(waiting, ", ") + more
	}
	return line
}

func mailStatus(pending, urgent int) string {
	switch urgent {
	case 0:
		return "✉ " + strconv.Itoa(pending)
	case pending:
		return "✉ " + strconv.Itoa(urgent) + " urgent"
	}
	return "✉ " + strconv.Itoa(urgent) + " urgent of " + strconv.Itoa(pending)
}
