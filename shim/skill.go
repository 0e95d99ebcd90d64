// skill: what teaches an agent to use its mail and to work on threads. The text is the broker's; here it is printed, or put
// where hosts look for it.
package main

import (
	"bytes"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

var skillOptions = []option{
	{name: "--agent", value: "HOSTS", text: "install: for these, with commas or repeated (claude, and those whose folder is there)", many: true},
	{name: "--dir", value: "FOLDER", text: "install: into this worktree instead of your own home folder"},
}

func init() {
	register(&command{
		name: "skill", own: "--agent", group: "set-up", summary: "Print or install the skill that teaches agents this.",
		usage: "skill print | skill install [--agent HOSTS] [--dir FOLDER]",
		help: helpText("print    the SKILL.md, as the broker has it\n"+
			"install  put it where the hosts look for skills; `inbox attach` does so too, for its worktree", skillOptions,
			`inbox skill print | less`,
			`inbox skill install`,
			`inbox skill install --agent codex --dir .`),
		run: runSkill,
	})
}

func runSkill(ctx *context, args []string) int {
	read, problem := ctx.parse(skillOptions, args, 1)
	if problem != nil {
		return ctx.fail(problem)
	}
	if len(read.words) == 0 || !contains([]string{"print", "install"}, read.words[0]) {
		return ctx.invalid("`inbox skill` needs a word more: print or install.", "Usage: inbox "+ctx.command.usage)
	}
	if read.words[0] == "print" && (read.has("--agent") || read.has("--dir")) {
		return ctx.invalid("--agent and --dir are flags of `inbox skill install`.", "Leave them out.")
	}
	broker, problem := ctx.connect()
	if problem != nil {
		return ctx.fail(problem)
	}
	var skill struct {
		Name   string            `json:"name"`
		Text   string            `json:"text"`
		Places map[string]string `json:"places"`
	}
	if _, problem := broker.read("GET", "/v1/skill", nil, &skill); problem != nil {
		return ctx.fail(olderBroker(problem))
	}
	if read.words[0] == "print" {
		if ctx.json {
			ctx.sayJSON("skill print", jsonOf(map[string]string{"name": skill.Name, "text": skill.Text}))
			return exitDone
		}
		ctx.stdout.Write([]byte(skill.Text))
		return exitDone
	}
	return installSkill(ctx, read, skill.Text, skill.Places)
}

func installSkill(ctx *context, read *arguments, text string, places map[string]string) int {
	root := read.get("--dir")
	var err error
	if root == "" {
		root, err = os.UserHomeDir()
	} else if about, found := os.Stat(root); found != nil || !about.IsDir() {
		return ctx.fail(refuseFile("FOLDER_UNKNOWN", "There is no folder "+root+".", "Give the worktree with --dir FOLDER."))
	}
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return ctx.fail(refuseFile("FOLDER_UNKNOWN", "The folder cannot be used: "+reason(err)+".", "Give a worktree with --dir FOLDER."))
	}
	hosts, problem := skillHosts(root, splitHosts(read.all("--agent")), places)
	if problem != nil {
		return ctx.fail(problem)
	}
	at := &site{worktree: root, repository: root}
	var states []fileState
	var changes []*change
	for _, host := range hosts {
		one := &target{site: at, base: inWorktree, file: places[host], edits: []edit{{Host: host, What: "skill", Form: "whole", Text: text}}}
		problem := one.open()
		if problem == nil {
			problem = one.settle()
		}
		if problem != nil {
			return ctx.fail(problem)
		}
		known := false
		for at := range states {
			if states[at].File == one.path {
				states[at].Hosts = append(states[at].Hosts, host)
				known = true
			}
		}
		if known {
			continue
		}
		state := one.state()
		state.File = one.path
		states = append(states, state)
		if one.changes() && !bytes.Equal(one.current, one.after) {
			changes = append(changes, one.change())
		}
	}
	if err := commit(changes); err != nil {
		return ctx.fail(refuseFile("FILE_UNUSABLE", "The skill could not be written: "+err.Error()+".", "Everything is as it was."))
	}
	if ctx.json {
		ctx.sayJSON("skill install", jsonOf(map[string]any{"files": states}))
		return exitDone
	}
	for _, one := range states {
		ctx.say("%s %s (%s)", one.State, printable(one.File), strings.Join(one.Hosts, ", "))
	}
	return exitDone
}

// skillHosts are those that are named, or those whose folder is there, or claude.
func skillHosts(root string, asked []string, places map[string]string) ([]string, *problem) {
	var names []string
	for name := range places {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, host := range asked {
		if places[host] == "" {
			return nil, invalidInput("No host is called `"+host+"`.", "There are "+strings.Join(names, ", ")+".")
		}
	}
	if len(asked) > 0 {
		return asked, nil
	}
	for _, host := range names {
		first, _, _ := strings.Cut(places[host], "/")
		if _, err := os.Stat(filepath.Join(root, first)); err == nil || host == "claude" {
			asked = append(asked, host)
		}
	}
	return asked, nil
}
