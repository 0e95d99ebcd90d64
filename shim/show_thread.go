// show, where it is about a thread: how it stands and all that was said in it, oldest first.
//
// Marked as read is exactly what was printed, and only once it is: a word that came meanwhile stays unread.
package main

import (
	"encoding/json"
	"net/url"
	"strings"
)

// historyPage is one page of a thread's history.
type historyPage struct {
	Thread     json.RawMessage `json:"thread"`
	Messages   rawList         `json:"messages"`
	NextCursor *string         `json:"next_cursor"`
}

func (ctx *context) showThread(read *arguments) int {
	id, problem := theThread(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	agent := ctx.lookingAgent()
	if read.has("--mark-read") {
		if agent, problem = broker.ownTask(""); problem != nil {
			return ctx.fail(problem)
		}
	}
	whole, problem := broker.history(id, agent)
	if problem != nil {
		return ctx.failIn(id, problem)
	}
	var shown thread
	if problem := understand(whole.Thread, &shown); problem != nil {
		return ctx.fail(problem)
	}
	messages := make([]message, len(whole.Messages))
	for at := range messages {
		if problem := understand(whole.Messages[at], &messages[at]); problem != nil {
			return ctx.fail(problem)
		}
	}
	printed := &sureWriter{to: ctx.stdout}
	ctx.stdout = printed
	if ctx.json {
		ctx.sayJSON("show", jsonOf(whole))
	} else {
		ctx.sayHistory(&shown, messages)
	}
	if !read.has("--mark-read") || printed.err != nil || len(messages) == 0 {
		return exitDone
	}
	_, problem = broker.ask("POST", threadPath(id, "mark-read"), struct {
		Agent string `json:"agent"`
		UpTo  int64  `json:"up_to"`
	}{agent, messages[len(messages)-1].N})
	if problem != nil {
		ctx.note("it is shown, but not marked as read: %s", problem.Error())
		return problem.exit
	}
	return exitDone
}

// history reads the thread page by page; how it stands is the last page's word.
func (b *broker) history(id, agent string) (*historyPage, *problem) {
	whole := &historyPage{Messages: rawList{}}
	query := url.Values{}
	if agent != "" {
		if problem := checkTask(agent); problem != nil {
			return nil, problem
		}
		query.Set("agent", agent)
	}
	for {
		var page historyPage
		path := threadPath(id, "")
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		if _, problem := b.read("GET", path, nil, &page); problem != nil {
			return nil, problem
		}
		whole.Thread, whole.Messages = page.Thread, append(whole.Messages, page.Messages...)
		if page.NextCursor == nil {
			return whole, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

func (ctx *context) sayHistory(t *thread, messages []message) {
	paint := ctx.paint()
	field := func(name, value string) {
		if value != "" {
			ctx.say("%s %s", paint(dim, pad(name, 10)), value)
		}
	}
	field("thread", t.ThreadID)
	field("subject", paint(bold, oneLine(t.Subject)))
	field("status", paint(statusColour(t.Status), t.Status))
	field("summary", oneLine(t.Summary))
	field("priority", paint(priorityColour(t.Priority), t.Priority))
	field("from", oneLine(strings.TrimPrefix(t.CreatedBy, "task:")))
	field("for", oneLine(t.owner()))
	if left := t.leaseLeft(); left != "" {
		field("lease", strings.TrimPrefix(left, "lease "))
	}
	field("run", oneLine(t.RunID))
	field("task", oneLine(t.TaskID))
	field("opened", moment(t.CreatedAtMs)+" ("+ago(t.CreatedAtMs)+")")
	for at := range messages {
		ctx.say("")
		ctx.sayWord(&messages[at])
	}
}

// sayWord prints one message of a thread.
func (ctx *context) sayWord(m *message) {
	paint := ctx.paint()
	head := m.Kind + " from " + m.from()
	if m.Task != "" {
		head += " to " + oneLine(m.Task)
	}
	if m.Priority != "normal" {
		head = m.Priority + " " + head
	}
	ctx.say("%s %s", paint(colourOr(priorityColour(m.Priority), bold), head), paint(dim, "· "+ago(m.CreatedAtMs)+" · "+m.MessageID))
	ctx.sayContent(m)
}
