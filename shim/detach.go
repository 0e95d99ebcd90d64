// detach: everything that attach did in a worktree, taken back. A file that nobody else has changed since becomes what it was,
// byte for byte; from one that somebody has changed only what is ours goes; what attach made and is empty now goes too.
package main

import (
	"path/filepath"
	"strings"
)

var detachOptions = []option{
	{name: "--dir", value: "FOLDER", text: "the worktree (this folder)"},
	{name: "--dry-run", text: "show what would change, and change nothing"},
}

func init() {
	register(&command{
		name: "detach", group: "set-up", summary: "Take back what attach did in a worktree.",
		usage: "detach [--dir FOLDER] [--dry-run]",
		help: helpText("Files become what they were before; of those that were changed since, only what attach put in is taken out. Its token\n"+
			"is revoked. The task and its mail stay: `inbox task remove TASK` removes them.", detachOptions,
			`inbox detach`,
			`inbox detach --dry-run`),
		run: runDetach,
	})
}

func runDetach(ctx *context, args []string) int {
	read, problem := ctx.parse(detachOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	at, problem := ctx.worktree(read.get("--dir"))
	if problem != nil {
		return ctx.fail(problem)
	}
	dry := read.has("--dry-run")
	if !dry {
		release, problem := lockAttach()
		if problem != nil {
			return ctx.fail(problem)
		}
		defer release()
		at.sweepRecords()
	}
	work := &attaching{ctx: ctx, site: at}
	if problem := work.prepareDetach(); problem != nil {
		if problem.exit == exitNoWork && !ctx.json {
			ctx.say("nothing is attached in %s", at.worktree)
			return exitNoWork
		}
		return ctx.fail(problem)
	}
	if !dry {
		if problem := work.writeDetached(); problem != nil {
			return ctx.fail(problem)
		}
		work.giveUp()
	}
	return work.sayDetached(dry)
}

func notAttached(worktree string) *problem {
	return &problem{code: "NOT_ATTACHED", message: "Nothing is attached in " + worktree + ".",
		hint: "`inbox attach --task TASK` attaches it, also where an earlier one left something and its record is gone.", exit: exitNoWork}
}

// prepareDetach works out what every file goes back to; nothing is changed.
func (a *attaching) prepareDetach() *problem {
	var refusal *problem
	if a.was, refusal = readAttachment(a.site.worktree); refusal != nil {
		return refusal
	}
	if a.was == nil {
		return notAttached(a.site.worktree)
	}
	if a.shared, refusal = readShared(a.site); refusal != nil {
		return refusal
	}
	records := a.was.Files
	for _, record := range a.shared.Files {
		if contains(record.Users, a.site.worktree) && len(stillUsing(record.Users, a.site.worktree)) == 0 {
			records = append(records, record)
		}
	}
	for _, record := range records {
		if record.Base == inGit && a.site.git == "" {
			continue // the repository is gone, and with it the file
		}
		one, refusal := a.target(record.Base, record.File, record)
		if refusal != nil {
			return refusal
		}
		if one.file == ".inbox/config.json" {
			a.config = one
			if values, _, _ := readConfig(one.path); tokenName(values[1]) == a.was.TokenName {
				a.own = values[1]
			}
		}
		if refusal = one.settle(); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (a *attaching) writeDetached() *problem {
	var changes []*change
	for _, one := range a.targets {
		if one.changes() || one.drop { // one that is not there may have left its folders
			changes = append(changes, one.change())
		}
	}
	if a.site.git != "" {
		shared := &sharedFiles{Version: attachVersion}
		for _, record := range a.shared.Files {
			if record.Users = stillUsing(record.Users, a.site.worktree); len(record.Users) > 0 {
				shared.Files = append(shared.Files, record)
			}
		}
		note, problem := recordChange(sharedFile(a.site.git), shared, len(shared.Files) == 0)
		if problem != nil {
			return problem
		}
		changes = append(changes, note...)
	}
	// Ours goes last: as long as it is there, detach can be said again.
	note, problem := recordChange(attachedFile(a.site.worktree), nil, true)
	if problem != nil {
		return problem
	}
	for _, record := range a.was.Files {
		if contains(record.Folders, ".inbox") && len(note) > 0 {
			note[0].empties = []string{filepath.Dir(attachedFile(a.site.worktree))}
		}
	}
	sweep(a.targets)
	if err := commit(changes, note); err != nil {
		return refuseFile("FILE_UNUSABLE", "The files could not be written: "+err.Error()+".", "Everything is as it was.")
	}
	return nil
}

// giveUp revokes the token that was here. A broker that is away keeps nobody from detaching.
func (a *attaching) giveUp() {
	if a.own == "" {
		return
	}
	from := readSettings(a.was.URL, "", "")
	if problem := revokeToken(from, a.own); problem != nil && problem.exit != exitDenied {
		_, id, _ := strings.Cut(a.was.TokenName, ".")
		a.notes = append(a.notes, "Its token is still good, because the broker did not answer: `inboxd token revoke "+id+"` revokes it.")
	}
}

func (a *attaching) sayDetached(dry bool) int {
	ctx := a.ctx
	states := statesOf(a.targets, dry)
	if ctx.json {
		ctx.sayJSON("detach", jsonOf(map[string]any{"dry_run": dry, "task": a.was.Task, "dir": a.site.worktree, "files": states,
			"notes": orEmpty(a.allNotes())}))
		return exitDone
	}
	if dry {
		ctx.say("would detach %s from %s", a.site.worktree, a.was.Task)
		ctx.sayDiffs(states)
		ctx.say("\nNothing was changed.")
	} else {
		ctx.say("detached %s from %s; the task and its mail are still there", a.site.worktree, a.was.Task)
		width := 0
		for _, one := range states {
			width = max(width, columns(one.File))
		}
		for _, one := range states {
			ctx.say("  %s  %s", pad(printable(one.File), width), ctx.paint()(dim, one.State))
		}
	}
	for _, note := range a.allNotes() {
		ctx.note("%s", note)
	}
	return exitDone
}
