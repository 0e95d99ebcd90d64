// completion: what a shell needs to finish a command line, written from the list of commands and their own manuals.
package main

import (
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"
)

func init() {
	register(&command{
		name: "completion", group: "set-up", summary: "Print a completion script for your shell.",
		usage: "completion bash|zsh|fish",
		help: helpText("Tasks are completed too, if a broker answers at once.", completionOptions,
			`source <(inbox completion bash)      # in ~/.bashrc`,
			`source <(inbox completion zsh)       # in ~/.zshrc, after compinit`,
			`inbox completion fish > ~/.config/fish/completions/inbox.fish`),
		run: runCompletion,
	})
}

var completionOptions = []option{{name: "--tasks", text: "print the names of the tasks instead; the scripts ask for them"}}

// takesTask are the flags whose value is a task.
var takesTask = []string{"--agent", "--assigned-to", "--created-by", "--from", "--peer", "--task", "--to"}

// takesFile are those whose value is a file or a folder.
var takesFile = []string{"--artifact", "--body-file", "--dir", "--log"}

// taskFirst are the commands whose first word is a task.
var taskFirst = []string{"pending", "send", "timeline"}

// What a manual says of its flags. Made when they are needed: a hook must not wait for them.
var (
	flagInManual   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^  (--[a-z][a-z-]*)( \S)?`) })
	choiceInManual = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(--[a-z][a-z-]*) ([a-z_]+(?:\|[a-z_]+)+)`)
	})
	wordsOfUsage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z-]+ ([a-z]+(?:\|[a-z]+)+)`) })
)

// flagsOf are a command's flags, as its manual lists them, and whether each takes a value: a command needs no second list.
func flagsOf(one *command) map[string]bool {
	found := map[string]bool{"--task": true} // the older name of --agent stands beside it
	for _, flag := range flagInManual().FindAllStringSubmatch(manual(one), -1) {
		found[flag[1]] = flag[2] != ""
	}
	return found
}

// choicesOf are the flags that take one of a few words, over all commands.
func choicesOf() map[string][]string {
	choices := map[string][]string{}
	for _, name := range commandNames() {
		for _, found := range choiceInManual().FindAllStringSubmatch(manual(find(name)), -1) {
			for _, word := range strings.Split(found[2], "|") {
				if !contains(choices[found[1]], word) {
					choices[found[1]] = append(choices[found[1]], word)
				}
			}
		}
	}
	for _, flag := range takesTask {
		delete(choices, flag)
	}
	// Lists with commas, of which the first word can be finished.
	choices["--status"], choices["--kinds"] = statuses, []string{"answer", "control", "result"}
	return choices
}

// subwordsOf are the words that may stand first after a command.
func subwordsOf(one *command) []string {
	if found := wordsOfUsage().FindStringSubmatch(one.usage); found != nil {
		return strings.Split(found[1], "|")
	}
	var words []string
	for _, form := range strings.Split(one.usage, " | ") {
		parts := strings.Fields(form)
		if len(parts) > 1 && parts[0] == one.name && strings.Contains(one.usage, " | ") && strings.Trim(parts[1], "abcdefghijklmnopqrstuvwxyz") == "" {
			words = append(words, parts[1])
		}
	}
	return words
}

func runCompletion(ctx *context, args []string) int {
	read, problem := ctx.parse(completionOptions, args, 1)
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--tasks") {
		return ctx.sayTaskNames()
	}
	shells := map[string]func() string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	if len(read.words) == 0 || shells[read.words[0]] == nil {
		return ctx.invalid("Which shell?", "Write `inbox completion bash`, zsh or fish.")
	}
	script := shells[read.words[0]]()
	if ctx.json {
		ctx.sayJSON("completion", jsonOf(map[string]string{"shell": read.words[0], "script": script}))
		return exitDone
	}
	ctx.stdout.Write([]byte(script))
	return exitDone
}

// sayTaskNames is asked while somebody types: it is quick, or it says nothing.
func (ctx *context) sayTaskNames() int {
	broker, problem := ctx.connect()
	if problem != nil {
		return exitDone
	}
	broker.tries, broker.timeout, broker.flushed = 1, 500*time.Millisecond, true
	var page struct {
		Tasks []taskRow `json:"tasks"`
	}
	if _, problem := broker.read("GET", "/v1/tasks?limit=200", nil, &page); problem != nil {
		return exitDone
	}
	for _, task := range page.Tasks {
		if checkTask(task.Task) == nil {
			ctx.say("%s", task.Task)
		}
	}
	return exitDone
}

func bashCompletion() string {
	var text strings.Builder
	text.WriteString(`# inbox: completion for bash
_inbox() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=
  COMPREPLY=()
  case $prev in
    ` + strings.Join(takesTask, "|") + `) COMPREPLY=($(compgen -W "$(inbox completion --tasks 2>/dev/null)" -- "$cur")); return ;;
    ` + strings.Join(takesFile, "|") + `) COMPREPLY=($(compgen -f -- "$cur")); return ;;
`)
	choices := choicesOf()
	for _, flag := range sortedKeys(choices) {
		text.WriteString("    " + flag + `) COMPREPLY=($(compgen -W "` + strings.Join(choices[flag], " ") + `" -- "$cur")); return ;;` + "\n")
	}
	text.WriteString("  esac\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"" +
		strings.Join(commandNames(), " ") + "\" -- \"$cur\")); return\n  fi\n  case $verb in\n")
	for _, name := range commandNames() {
		one := find(name)
		words := append(subwordsOf(one), sortedKeys(flagsOf(one))...)
		tasks := ""
		if contains(taskFirst, name) {
			tasks = " $([ \"$COMP_CWORD\" -eq 2 ] && inbox completion --tasks 2>/dev/null)"
		}
		text.WriteString("    " + name + `) words="` + strings.Join(words, " ") + tasks + "\" ;;\n")
	}
	text.WriteString("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _inbox inbox\n")
	return text.String()
}

func zshCompletion() string {
	return `#compdef inbox
# inbox: completion for zsh, by way of bash's
autoload -U +X bashcompinit && bashcompinit
` + bashCompletion()
}

func fishCompletion() string {
	var text strings.Builder
	text.WriteString("# inbox: completion for fish\ncomplete -c inbox -f\n")
	choices := choicesOf()
	for _, name := range commandNames() {
		one := find(name)
		text.WriteString("complete -c inbox -n __fish_use_subcommand -a " + name + " -d " + fishQuoted(one.summary) + "\n")
		seen := " -n '__fish_seen_subcommand_from " + name + "'"
		if words := subwordsOf(one); len(words) > 0 {
			text.WriteString("complete -c inbox" + seen + " -a '" + strings.Join(words, " ") + "'\n")
		}
		if contains(taskFirst, name) {
			text.WriteString("complete -c inbox" + seen + " -a '(inbox completion --tasks 2>/dev/null)'\n")
		}
		flags := flagsOf(one)
		for _, flag := range sortedKeys(flags) {
			line := "complete -c inbox" + seen + " -l " + strings.TrimPrefix(flag, "--")
			switch {
			case !flags[flag]:
			case contains(takesTask, flag):
				line += " -x -a '(inbox completion --tasks 2>/dev/null)'"
			case len(choices[flag]) > 0:
				line += " -x -a '" + strings.Join(choices[flag], " ") + "'"
			case contains(takesFile, flag):
				line += " -r -F"
			default:
				line += " -x"
			}
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

func fishQuoted(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "'", `\'`) + "'"
}

func sortedKeys[value any](of map[string]value) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
