// attach --status: what is installed in a worktree, whether its hosts trust it, and whether it works. It looks and tries, as
// doctor does, and changes nothing.
package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func attachStatus(ctx *context, at *site) int {
	was, problem := readAttachment(at.worktree)
	if problem == nil && was == nil {
		problem = notAttached(at.worktree)
	}
	var shared *sharedFiles
	if problem == nil {
		shared, problem = readShared(at)
	}
	if problem != nil {
		return ctx.fail(problem)
	}
	check := &checkup{ctx: ctx}
	ctx.found = readSettings(ctx.url, ctx.task, at.worktree)
	check.ok("attached", at.worktree+" to "+was.Task+" · "+strings.Join(was.Hosts, ", "))
	records := was.Files
	for _, record := range shared.Files {
		if contains(record.Users, at.worktree) {
			records = append(records, record)
		}
	}
	for _, record := range records {
		check.file(at, record)
	}
	for _, note := range was.Trust {
		check.trust(at, &note)
	}
	broker := check.configuration()
	reached := broker != nil && check.broker(broker)
	who := identity{}
	if reached {
		who = check.token(broker)
	}
	var hooks []*installed
	for _, one := range findHooks(at.worktree, check) {
		if one.project && contains(was.Hosts, one.host) {
			hooks = append(hooks, one)
		}
	}
	task := check.task(broker, who, true)
	if len(hooks) == 0 {
		check.broken("hooks", "none are found here any more", "`inbox attach` puts them back.")
	} else {
		check.hooks(broker, task, at.worktree, hooks, false)
	}
	return check.report()
}

// file says whether what was put into a file is still there.
func (c *checkup) file(at *site, record *fileRecord) {
	one := &target{site: at, base: record.Base, file: record.File, record: record}
	problem := one.open()
	name := "installed"
	if problem != nil {
		c.broken(name, problem.message, problem.hint)
		return
	}
	told := one.state()
	what := one.shown() + " (" + strings.Join(told.What, ", ") + ")"
	again := "`inbox attach` puts it back."
	if !one.exists {
		c.broken(name, what+" is gone", again)
		return
	}
	if hashOf(one.current) == record.After {
		c.ok(name, what)
		return
	}
	var missing []string
	for number := range record.Edits {
		rest := &draft{text: one.current}
		wanted := &record.Edits[number]
		if found := takeOut(rest, wanted); found != nil {
			refusal := one.refuse(rest.text, wanted, found)
			c.broken(name, refusal.message, "Mend it: its host may not read it either.")
			return
		}
		if len(rest.steps) == 0 && wanted.Form != "whole" && !contains(missing, wanted.What) {
			missing = append(missing, wanted.What)
		}
	}
	if len(missing) > 0 {
		c.broken(name, what+" has lost: "+strings.Join(missing, ", "), again)
		return
	}
	c.ok(name, what+", changed since by somebody else")
}

// trust says whether a host has noted that the person trusts something.
func (c *checkup) trust(at *site, note *hostTrust) {
	folder := os.Getenv(note.FolderEnv)
	if note.FolderEnv == "" || folder == "" {
		home, _ := os.UserHomeDir()
		folder = strings.Replace(note.Folder, "~", home, 1)
	}
	file := filepath.Join(folder, filepath.FromSlash(note.File))
	text, _ := os.ReadFile(file)
	name := "trusted"
	count := 0
	for _, wanted := range note.AnyOf {
		wanted = strings.ReplaceAll(strings.ReplaceAll(wanted, "{worktree}", at.worktree), "{repository}", at.repository)
		count = max(count, strings.Count(string(text), wanted))
	}
	if count >= note.Least {
		c.ok(name, note.Host+": "+note.What+", as "+file+" notes")
		return
	}
	said := note.Host + ": not yet its " + note.What
	if count > 0 {
		said += " (" + strconv.Itoa(count) + " of " + strconv.Itoa(note.Least) + ")"
	}
	c.broken(name, said+", as far as "+file+" says", note.Hint)
}
