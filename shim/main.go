// The front door: which word on the command line is which command, and the flags that every command takes.
//
// Each verb has a file of its own and registers itself in its init. Nothing here speaks to the broker, and nothing
// slow may happen before the command runs: an agent waits for `inbox hook` after every tool call, and it pays for the
// package's init too. No regexp.MustCompile at package level, no tables computed at start: sync.OnceValue them.
//
// The runtime is told not to keep an eye on the container's CPU limit: measured, that is a twentieth of a hook's time.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"io"
	"os"
	"sort"
	"strings"
)

// version is written over by the build (-ldflags "-X main.version=…").
var version = "0.1.0"

// command is one verb. `run` gets what stands after the verb, without the flags that every command takes, and returns
// the exit code.
type command struct {
	name    string
	group   string // the heading it is listed under: one of `groups`
	summary string // one line, for the list
	usage   string // what stands after `inbox`: "send TASK TEXT [--priority P]"
	help    string // the rest of `inbox NAME --help`
	own     string // a flag of every command that means something else behind this one's name: it is left to it
	calm    bool   // it never fails, whatever is wrong with the flags of every command
	run     func(ctx *context, args []string) int
}

// groups are the headings of the list, in their order.
var groups = []string{"mail", "tasks", "threads", "set-up"}

var commands []*command

func register(added *command) {
	commands = append(commands, added)
}

// context is what a command may touch: its streams, the flags of every command, and through them the broker.
type context struct {
	command *command
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	json    bool   // --json
	url     string // --url, or empty
	task    string // --agent or --task, or empty: ask settings().task instead, which knows the environment and the files too
	agent   string // --agent, or empty

	found *settings
}

// settings are read at the first question, from the folder the command was started in.
func (ctx *context) settings() *settings {
	if ctx.found == nil {
		here, _ := os.Getwd()
		ctx.found = readSettings(ctx.url, ctx.task, here)
		if ctx.agent != "" {
			ctx.found.task.from = "--agent"
		}
	}
	return ctx.found
}

// client is how a command reaches the broker; the problem says why there is none.
func (ctx *context) client() (*client, *problem) {
	return newClient(ctx.settings())
}

func main() {
	os.Exit(dispatch(os.Args[1:], &context{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}))
}

// dispatch finds the command and runs it. The flags of every command may stand before or after its name; what stands
// after a bare `--` is left alone, and the `--` is handed on.
func dispatch(given []string, ctx *context) int {
	var rest []string
	help := false
	for at := 0; at < len(given); at++ {
		word := given[at]
		if word == "--" {
			rest = append(rest, given[at:]...)
			break
		}
		name, value, joined := strings.Cut(word, "=")
		switch name {
		case "--json":
			ctx.json = true
		case "--help", "-h":
			help = true
		case "--version":
			io.WriteString(ctx.stdout, "inbox "+version+"\n")
			return exitDone
		case "--url", "--task", "--agent":
			if len(rest) > 0 && find(rest[0]) != nil && find(rest[0]).own == name {
				rest = append(rest, word)
				continue
			}
			if !joined {
				if at++; at == len(given) {
					if isCalm(rest) {
						break
					}
					return ctx.invalid(name+" needs a value.", "Write "+name+" VALUE.")
				}
				value = given[at]
			}
			switch name {
			case "--url":
				ctx.url = value
			case "--agent":
				ctx.agent = value
			default:
				ctx.task = value
			}
		default:
			rest = append(rest, word)
		}
	}
	if ctx.agent != "" {
		if ctx.task != "" && ctx.task != ctx.agent && !isCalm(rest) {
			return ctx.invalid("--agent and --task name two, and are one setting.", "Give one of them.")
		}
		ctx.task = ctx.agent
	}
	if len(rest) > 0 && rest[0] == "help" {
		rest, help = rest[1:], true
	}
	if len(rest) == 0 {
		io.WriteString(ctx.stdout, overview())
		return exitDone
	}
	ctx.command = find(rest[0])
	if ctx.command == nil {
		hint := "`inbox --help` lists the commands."
		if near := nearest(rest[0], commandNames()); near != "" {
			hint = "Did you mean `inbox " + near + "`?"
		}
		return ctx.invalid("There is no command `"+rest[0]+"`.", hint)
	}
	if help {
		io.WriteString(ctx.stdout, manual(ctx.command))
		return exitDone
	}
	return ctx.command.run(ctx, rest[1:])
}

func find(name string) *command {
	for _, one := range commands {
		if one.name == name {
			return one
		}
	}
	return nil
}

// isCalm says whether these words are for a command that never fails: an agent's turn or a status bar is not worth a flag.
func isCalm(words []string) bool {
	if len(words) == 0 {
		return false
	}
	named := find(words[0])
	return named != nil && named.calm
}

func commandNames() []string {
	names := make([]string, 0, len(commands))
	for _, one := range commands {
		names = append(names, one.name)
	}
	sort.Strings(names)
	return names
}

func overview() string {
	var text strings.Builder
	text.WriteString("inbox: the mail of running coding agents.\n\nUsage: inbox COMMAND [ARGUMENTS]\n" + workersLoop)
	width := 0
	for _, one := range commands {
		width = max(width, len(one.name))
	}
	for _, group := range groups {
		heading := "\n" + group + "\n"
		for _, name := range commandNames() {
			one := find(name)
			if one.group != group {
				continue
			}
			text.WriteString(heading)
			heading = ""
			text.WriteString("  " + one.name + strings.Repeat(" ", width-len(one.name)+2) + one.summary + "\n")
		}
	}
	text.WriteString(everyFlag)
	text.WriteString("\n`inbox COMMAND --help` says more.\n")
	return text.String()
}

func manual(of *command) string {
	text := "Usage: inbox " + of.usage + "\n\n" + of.summary + "\n"
	if of.help != "" {
		text += "\n" + strings.TrimSpace(of.help) + "\n"
	}
	return text + everyFlag + exitCodes
}

// workersLoop is what an agent needs that reads no other help.
const workersLoop = `
A worker's loop: take work, say how it goes, ask when something is missing, finish.
  inbox fetch                                 what there is to do, most urgent first; it grants nothing
  inbox claim --thread ID                     own it for ten minutes; inbox renew keeps it for longer
  inbox update --thread ID --summary TEXT     how it goes
  inbox update --thread ID --status blocked --body QUESTION
  inbox wait-reply --thread ID                the answer, as soon as it comes
  inbox done --thread ID --summary TEXT       or inbox fail; whoever opened the thread is told
Exit code 20 means that somebody else owns it: leave it and fetch again. The fencing token is kept for you.

A leader's: inbox send --to TASK --subject TEXT · inbox watch --threads · inbox reply · inbox cancel · inbox list.
`

const everyFlag = `
with every command
  --json        the answer as JSON, errors too
  --agent TASK  who you are: whose inbox, whose threads  (or INBOX_TASK; --task is the older name)
  --url URL     the broker                               (or INBOX_URL)
  --help        this
`

// nearest is the known word closest to what was typed; empty when none is close enough to be meant.
func nearest(typed string, known []string) string {
	best, least := "", 1+max(1, len(typed)/3)
	for _, word := range known {
		if away := distance(typed, word); away < least {
			best, least = word, away
		}
	}
	return best
}

// distance counts the letters to add, drop or change to make one word the other; two swapped letters count as one.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
