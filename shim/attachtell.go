// What attach and detach tell: file by file, with the difference when nothing is done yet. A token's secret is never in it.
package main

import "strings"

// fileState is one file as it is told.
type fileState struct {
	File  string   `json:"file"`
	What  []string `json:"what"`
	Hosts []string `json:"hosts"`
	State string   `json:"state"` // created, changed, unchanged, restored, removed
	Diff  *string  `json:"diff,omitempty"`
}

// state says what becomes of a file.
func (t *target) state() fileState {
	told := fileState{File: t.shown(), What: []string{}, Hosts: []string{}, State: "unchanged"}
	edits := t.edits
	if len(edits) == 0 && t.record != nil {
		edits = t.record.Edits
	}
	for _, one := range edits {
		if !contains(told.What, one.What) {
			told.What = append(told.What, one.What)
		}
		if one.Host != "" && !contains(told.Hosts, one.Host) {
			told.Hosts = append(told.Hosts, one.Host)
		}
	}
	switch {
	case !t.changes():
	case t.drop:
		told.State = "removed"
	case !t.exists:
		told.State = "created"
	case len(t.edits) == 0:
		told.State = "restored"
	default:
		told.State = "changed"
	}
	return told
}

// tellable is a file's text as it may be shown: the token's secret is nobody's.
func tellable(text []byte) string {
	told := string(text)
	for at := strings.Index(told, "ibx_"); at >= 0; {
		end := at
		for end < len(told) && (isLetterOrDigit(told[end]) || strings.IndexByte("._-", told[end]) >= 0) {
			end++
		}
		name := tokenName(told[at:end])
		if name == "" {
			name = "ibx_"
		}
		told = told[:at] + name + ".…" + told[end:]
		next := strings.Index(told[at+len(name):], "ibx_")
		if next < 0 {
			break
		}
		at += len(name) + next
	}
	return told
}

// states are all files that matter to a person, ours last.
func statesOf(targets []*target, diffs bool) []fileState {
	var told []fileState
	for _, one := range targets {
		state := one.state()
		if diffs && one.changes() {
			after := one.after
			if one.drop {
				after = nil
			}
			diff := diffText(tellable(one.current), tellable(after))
			state.Diff = &diff
		}
		told = append(told, state)
	}
	return told
}

// show is --dry-run.
func (a *attaching) show() int {
	ctx := a.ctx
	states := statesOf(a.targets, true)
	if ctx.json {
		ctx.sayJSON("attach", jsonOf(map[string]any{"dry_run": true, "task": a.task, "peers": orEmpty(a.peers), "hosts": a.hosts,
			"dir": a.site.worktree, "files": states, "notes": orEmpty(a.allNotes())}))
		return exitDone
	}
	ctx.say("would attach %s in %s to %s", strings.Join(a.hosts, ", "), a.site.worktree, a.task)
	ctx.say("would declare %s at %s%s", a.task, withoutSecrets(a.ctx.settings().url.value), linkedTo(a.peers))
	if a.own == "" {
		ctx.say("would make a token for it, into .inbox/config.json")
	}
	ctx.sayDiffs(states)
	for _, note := range a.allNotes() {
		ctx.note("%s", note)
	}
	ctx.say("\nNothing was changed.")
	return exitDone
}

func (ctx *context) sayDiffs(states []fileState) {
	paint := ctx.paint()
	for _, one := range states {
		if one.Diff == nil {
			continue
		}
		ctx.say("\n%s %s", paint(bold, printable(one.File)), paint(dim, "("+one.State+")"))
		for _, line := range strings.Split(strings.TrimSuffix(*one.Diff, "\n"), "\n") {
			colour := plain
			switch {
			case strings.HasPrefix(line, "+"):
				colour = green
			case strings.HasPrefix(line, "-"):
				colour = red
			case strings.HasPrefix(line, "@@"):
				colour = cyan
			}
			ctx.say("%s", paint(colour, printable(strings.TrimSuffix(line, "\r"))))
		}
	}
}

func linkedTo(peers []string) string {
	if len(peers) == 0 {
		return ""
	}
	return ", linked to " + strings.Join(peers, ", ")
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (a *attaching) allNotes() []string {
	notes := a.notes
	for _, one := range a.targets {
		notes = append(notes, one.notes...)
	}
	return notes
}

// say tells what was done.
func (a *attaching) say(done *attached) int {
	ctx := a.ctx
	states := statesOf(a.targets, false)
	var notices []string
	for _, one := range a.plans {
		if one.Notice != "" && !contains(notices, one.Notice) {
			notices = append(notices, one.Notice)
		}
	}
	if ctx.json {
		ctx.sayJSON("attach", jsonOf(map[string]any{"dry_run": false, "task": a.task, "peers": orEmpty(done.Task.Peers), "hosts": a.hosts,
			"dir": a.site.worktree, "created": done.Created, "files": states, "notices": orEmpty(notices), "notes": orEmpty(a.allNotes())}))
		return exitDone
	}
	a.saySummary(done, states)
	for _, notice := range notices {
		ctx.say("%s", notice)
	}
	for _, note := range a.allNotes() {
		ctx.note("%s", note)
	}
	if a.site.top != "" && a.site.top != a.site.worktree {
		ctx.note("%s is not the top of its repository: start the agents here.", a.site.worktree)
	}
	ctx.say("Now start an agent here, and write to it from another folder: inbox send %s \"…\"", a.task)
	return exitDone
}

func (a *attaching) saySummary(done *attached, states []fileState) {
	ctx := a.ctx
	paint := ctx.paint()
	changed := false
	for _, one := range states {
		changed = changed || one.State != "unchanged"
	}
	if changed {
		ctx.say("attached %s to %s%s", a.site.worktree, paint(bold, a.task), peersOf(&done.Task))
	} else {
		ctx.say("%s was attached to %s before; nothing changed%s", a.site.worktree, paint(bold, a.task), peersOf(&done.Task))
	}
	width := 0
	for _, one := range states {
		width = max(width, columns(one.File))
	}
	for _, one := range states {
		what := strings.Join(one.What, ", ")
		if len(one.Hosts) > 0 {
			what = strings.Join(one.Hosts, ", ") + ": " + what
		}
		ctx.say("  %s  %s %s", pad(printable(one.File), width), paint(dim, pad(one.State, 9)), what)
	}
}
