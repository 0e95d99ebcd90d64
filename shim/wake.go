// wake: run by an agent's program in the background while nobody types. It waits for mail and wakes the session.
//
// There are two ways, and the hook's command line says which: with a host's name alone, mail is said as a hook says it, on
// stderr with exit code 2; with `--` and a command, that is run once mail waits, and the hooks of the turn it starts bring the
// mail. One waits for a session at a time: a newer one, or `--end`, ends the one before, and so does the death of the program.
package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	wakeRound    = 50 * time.Second // of one wait at the broker
	wakeDeadline = 10 * time.Second // of asking, beside the wait
	wakePause    = 5 * time.Second  // while the broker is away; it doubles
	wakePauseMax = 5 * time.Minute
	wakeFirst    = 2 * time.Second        // before the first look: the hooks of the same moment come first
	wakeLook     = 500 * time.Millisecond // between looks whether somebody else waits now
	wakeFor      = 12 * time.Hour
	wakeInput    = 1 << 20 // bytes of a hook's input
)

func init() {
	register(&command{
		name: "wake", group: "set-up", summary: "Run by an agent's program in the background: wakes an idle session when mail comes.",
		usage: "wake [HOST] [--end] [-- COMMAND…]",
		help: `
Reads a hook's input on stdin and waits for mail. Then it says the mail on stderr and ends with 2, which wakes hosts that
know that; or runs COMMAND, with {session} for the session's id. ` + "`inbox attach --wake`" + ` installs it.

  --end  end the wait of this session: the person speaks`,
		run: runWake,
	})
}

func runWake(ctx *context, args []string) int {
	host, command, ends := "auto", []string(nil), false
	for at, word := range args {
		if word == "--" {
			command = args[at+1:]
			break
		}
		switch {
		case word == "--end":
			ends = true
		case isHost(word) && len(word) <= 32 && word[0] != '-':
			host = word
		}
	}
	input, err := io.ReadAll(io.LimitReader(ctx.stdin, wakeInput))
	if err != nil {
		return exitDone
	}
	fields, err := scanObject(bytes.NewReader(input), hookFields, make([]byte, 32<<10))
	if err != nil {
		return exitDone
	}
	turn := takeTurn(textOf(fields[fieldSession]))
	if ends || turn == nil {
		return exitDone
	}
	go turn.watch()
	time.Sleep(wakeFirst)
	if len(command) > 0 {
		return waitAndRun(ctx, turn, folderOf(fields), textOf(fields[fieldSession]), command)
	}
	return waitAndSay(ctx, turn, host, input)
}

// waitAndSay asks as a hook asks, again and again, until there is something to say.
func waitAndSay(ctx *context, turn *wakeTurn, host string, input []byte) int {
	for pause := wakePause; !turn.over(); {
		began := time.Now()
		run := &hook{began: began, host: host, mode: "wake", linger: wakeRound, deadline: wakeDeadline, print: printHook}
		ctx.stdin = bytes.NewReader(input)
		if code := run.run(ctx); code != exitDone {
			return code
		}
		if strings.HasPrefix(run.result, "could not print") {
			return exitDone // nobody is there any more
		}
		if time.Since(began) > wakeRound/2 {
			pause = wakePause
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, wakePauseMax)
	}
	return exitDone
}

// waitAndRun looks how much waits, without taking it, and runs the command when something does.
func waitAndRun(ctx *context, turn *wakeTurn, folder, session string, command []string) int {
	ctx.found = readSettings(ctx.url, ctx.task, folder)
	for pause := wakePause; !turn.over(); {
		began := time.Now()
		if mailWaits(ctx) && !turn.over() {
			words := make([]string, len(command))
			for at, word := range command {
				words[at] = strings.ReplaceAll(word, "{session}", session)
			}
			running := exec.Command(words[0], words[1:]...)
			running.Dir = folder
			running.Run() // what it says is for nobody
			return exitDone
		}
		if time.Since(began) > wakeRound/2 {
			pause = wakePause
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, wakePauseMax)
	}
	return exitDone
}

// mailWaits waits for mail at the broker for one round; any trouble is none.
func mailWaits(ctx *context) bool {
	task := ctx.settings().task.value
	asking, problem := ctx.connect()
	if problem != nil || checkTask(task) != nil {
		return false
	}
	asking.tries, asking.flushed = 1, true
	path := taskPath(task, "pending") + "?wait_ms=" + strconv.FormatInt(wakeRound.Milliseconds(), 10)
	answer, problem, _ := asking.askWaiting("GET", path, nil, wakeRound)
	if problem != nil {
		return false
	}
	var counts struct {
		Pending int `json:"pending"`
	}
	return understand(answer, &counts) == nil && counts.Pending > 0
}

// wakeTurn is whose turn it is to wait for a session: whoever wrote its file last.
type wakeTurn struct {
	path   string
	word   string
	until  time.Time
	parent int
	above  int // what started the shell that we run in; 0 if we run in none, or it cannot be known
}

// takeTurn makes this process the one that waits; nil when nothing can be remembered.
func takeTurn(session string) *wakeTurn {
	folder := sessionDir(cacheDir(), session)
	if folder == "" {
		return nil
	}
	turn := &wakeTurn{path: filepath.Join(folder, "wake"), word: randomHex(8), until: time.Now().Add(wakeFor), parent: os.Getppid()}
	turn.above = startedShell(turn.parent)
	if writeWhole(turn.path, []byte(turn.word)) != nil {
		return nil
	}
	return turn
}

// over says that somebody else waits now, or nobody should.
func (t *wakeTurn) over() bool {
	word, err := os.ReadFile(t.path)
	return err != nil || string(word) != t.word || os.Getppid() != t.parent || startedShell(t.parent) != t.above || time.Now().After(t.until)
}

// startedShell is the process that started this one, if this one is a shell: programs run a hook in one, which outlives them.
func startedShell(shell int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(shell) + "/stat")
	if err != nil {
		return 0
	}
	// PID (NAME) STATE PARENT …; the name may have anything in it.
	_, rest, _ := bytes.Cut(stat, []byte("("))
	end := max(0, bytes.LastIndexByte(rest, ')'))
	after := strings.Fields(string(rest[end:]))
	if !strings.HasSuffix(string(rest[:end]), "sh") || len(after) < 3 {
		return 0
	}
	parent, _ := strconv.Atoi(after[2])
	return parent
}

// watch ends the process when it is over, also in the middle of a wait. Mail that was just taken comes again.
func (t *wakeTurn) watch() {
	for !t.over() {
		time.Sleep(wakeLook)
	}
	os.Exit(exitDone)
}
