// init: what a first use needs, checked and, where that is safe, made: a broker, a token that opens it, and the agent's task.
//
// A broker is started only where none was named: an address that somebody gave stands for a broker that somebody else
// runs. Said twice, it changes nothing.
package main

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	startWithin = 30 * time.Second // from `inboxd serve` to its first answer
	startLook   = 50 * time.Millisecond
)

var initOptions = []option{
	{name: "--no-start", text: "start no broker; only say what is missing"},
}

func init() {
	register(&command{
		name: "init", group: "set-up", summary: "Get ready for a first use: broker, token, task.",
		usage: "init [--agent TASK] [--no-start]",
		help: helpText("It looks for the broker, starts `inboxd serve` in the background if none is named and none runs here, tries the token,\n"+
			"declares the agent's task, and says what to try next. Run it again at any time: what is ready is left alone.\n"+
			"`inbox doctor` tries the hooks too, and changes nothing.",
			initOptions,
			`inbox init --agent backend`,
			`inbox init --url http://broker:8420 --agent backend --json`,
			`inbox init --no-start`),
		run: runInit,
	})
}

// setUp is what was found and done.
type setUp struct {
	checkup
	agent   string
	started string   // how a broker runs that was started just now; empty if none was
	missing *problem // the first thing that is
}

func (s *setUp) lacks(name string, p *problem) {
	if p.hint == "" {
		p.hint = hintFor(p.code, "")
	}
	s.broken(name, p.message, p.hint)
	if s.missing == nil {
		s.missing = p
	}
}

func runInit(ctx *context, args []string) int {
	read, problem := ctx.parse(initOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	s := &setUp{checkup: checkup{ctx: ctx}}
	if broker := s.reach(!read.has("--no-start")); broker != nil && s.tryToken(broker) {
		s.declare(broker)
	}
	return s.say()
}

// reach finds the broker, or starts one.
func (s *setUp) reach(mayStart bool) *broker {
	found, p := s.tryBroker()
	if p != nil && p.code != "BROKER_UNREACHABLE" && found == nil {
		s.lacks("configuration", p)
		return nil
	}
	s.ok("configuration", settingsFound(s.ctx.settings()))
	if p == nil {
		s.ok("broker", "answers at "+withoutSecrets(found.client.base))
		return found
	}
	program := ""
	if p.code == "BROKER_UNREACHABLE" && isOurs(s.ctx.settings()) {
		program = findBroker()
		if program == "" {
			p.hint = "Install inboxd beside inbox, or set INBOX_URL to a broker that runs elsewhere."
		} else if !mayStart {
			p.hint = "Start one with `inboxd serve`, or leave --no-start out."
			program = ""
		}
	}
	if program == "" {
		s.lacks("broker", p)
		return nil
	}
	found, p = s.start(program)
	if p != nil {
		s.lacks("broker", p)
		return nil
	}
	said := "answers at " + withoutSecrets(found.client.base)
	if s.started != "" {
		said += ": started " + s.started
	}
	s.ok("broker", said)
	return found
}

// tryBroker reads the settings anew: a broker that starts writes some.
func (s *setUp) tryBroker() (*broker, *problem) {
	s.ctx.found = nil
	asking, p := s.ctx.connect()
	if p != nil {
		return nil, p
	}
	asking.tries, asking.timeout, asking.flushed = 1, doctorTimeout, true
	status, answer, p := asking.post("GET", "/healthz", nil, doctorTimeout)
	if p == nil && status != 200 {
		p = refusal(status, answer)
	}
	return asking, p
}

// isOurs says whether the address, if there is one, is only what a broker on this machine left behind.
func isOurs(from *settings) bool {
	left, _, _ := readConfig(runtimeFile())
	return from.url.value == "" || from.url.from == runtimeFile() || from.url.trust < trustCaller && sameBroker(left[0], from.url.value)
}

// findBroker is the program of the broker: beside this one, or on the PATH.
func findBroker() string {
	name := "inboxd"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Join(filepath.Dir(self), name)
		if about, err := os.Stat(beside); err == nil && !about.IsDir() {
			return beside
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return found
}

// start runs `inboxd serve` on its own, away from this terminal, and waits for its first answer. Of two that start at the
// same time one does, and the other finds it running.
func (s *setUp) start(program string) (*broker, *problem) {
	folder := dataDir()
	cannot := func(why string) *problem {
		return &problem{code: "START_PROBLEM", message: "inboxd does not start: " + why, hint: "Run `inboxd serve` yourself and read what it says.", exit: exitBroken}
	}
	if folder == "" {
		return nil, cannot("there is no folder for its data; set HOME or INBOXD_DATA_DIR.")
	}
	unlock, err := lockSpool(filepath.Join(folder, "init.lock"), startWithin)
	if err != nil {
		return nil, cannot(err.Error() + ".")
	}
	defer unlock()
	if found, p := s.tryBroker(); p == nil {
		return found, nil
	}
	path := filepath.Join(folder, "serve.log")
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, cannot(err.Error() + ".")
	}
	defer log.Close()
	before, _ := log.Seek(0, 2)
	left, _ := os.ReadFile(runtimeFile())
	serve := exec.Command(program, append([]string{"serve"}, portFlag(s.ctx.settings())...)...)
	serve.Stdout, serve.Stderr, serve.Dir = log, log, folder
	inBackground(serve)
	if err := serve.Start(); err != nil {
		return nil, cannot(err.Error() + ".")
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	for until := time.Now().Add(startWithin); ; {
		select {
		case <-ended:
			return nil, cannot(lastLine(path, before))
		case <-time.After(startLook):
		}
		// What an earlier broker left may point at somebody else's port by now: only what this one writes counts.
		if now, err := os.ReadFile(runtimeFile()); err == nil && !bytes.Equal(now, left) {
			if found, p := s.tryBroker(); p == nil {
				s.started = "as process " + strconv.Itoa(serve.Process.Pid) + ", with its log in " + path
				return found, nil
			}
		}
		if time.Now().After(until) {
			return nil, cannot("it has not answered within " + rough(startWithin) + "; its log is " + path + ".")
		}
	}
}

// portFlag keeps a broker at the address that this account has written down for it.
func portFlag(from *settings) []string {
	if from.url.value == "" || from.url.from == runtimeFile() {
		return nil
	}
	address, err := url.Parse(from.url.value)
	if err != nil || address.Port() == "" {
		return nil
	}
	return []string{"--port", address.Port()}
}

// lastLine is what a program said last, of what it wrote behind an offset.
func lastLine(path string, offset int64) string {
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) < offset {
		return "it ended at once; its log is " + path + "."
	}
	lines := bytes.Split(bytes.TrimSpace(text[offset:]), []byte("\n"))
	said := strings.TrimPrefix(oneLine(string(lines[len(lines)-1])), "inboxd: ")
	if said == "" {
		return "it ended at once and said nothing; its log is " + path + "."
	}
	return cutTo(said, 300)
}

// tryToken says what the token is for, and whether an agent is known.
func (s *setUp) tryToken(broker *broker) bool {
	who, p := broker.whoami()
	if p != nil {
		s.lacks("token", p)
		return false
	}
	said := "role " + who.Role
	if who.Task != "" {
		said += " of " + who.Task
	}
	s.ok("token", said+", namespace "+who.Namespace+" (from "+s.ctx.settings().token.from+")")
	s.agent = s.ctx.settings().task.value
	if s.agent == "" {
		s.agent = who.Task
	}
	if s.agent == "" {
		s.skipped("agent", "none is named", "Name it with --agent TASK, or INBOX_TASK, to send and take work in its name.")
	}
	return s.agent != ""
}

// declare gives the agent an inbox, if it has none and the token may.
func (s *setUp) declare(broker *broker) {
	p := checkTask(s.agent)
	var row taskRow
	if p == nil {
		_, p = broker.read("GET", taskPath(s.agent, ""), nil, &row)
	}
	if p != nil && p.code == "TASK_UNKNOWN" {
		if _, p = broker.ask("POST", "/v1/tasks", map[string]any{"task": s.agent}); p == nil {
			s.ok("agent", s.agent+" is declared now")
			return
		}
	}
	if p != nil {
		s.lacks("agent", p)
		return
	}
	s.ok("agent", s.agent+" is "+row.State+", "+counted(row.Pending, "message")+" waiting")
}

// next are the commands to try.
func (s *setUp) next() []string {
	if s.agent == "" {
		return []string{"inbox init --agent NAME", "inbox tasks", "inbox list"}
	}
	lines := []string{"inbox fetch", "inbox check", `inbox send --to ` + s.agent + ` --subject "A first task" --body "Say hello."`}
	if from := s.ctx.settings().task.from; from == "--agent" || from == "--task" {
		lines = append([]string{"export INBOX_TASK=" + s.agent}, lines...)
	}
	return lines
}

func (s *setUp) say() int {
	if s.ctx.json {
		if s.missing != nil {
			return s.ctx.fail(s.missing)
		}
		s.ctx.sayJSON("init", jsonOf(struct {
			URL     string   `json:"url"`
			Agent   *string  `json:"agent"`
			Started bool     `json:"started"`
			Checks  []link   `json:"checks"`
			Next    []string `json:"next"`
		}{withoutSecrets(s.ctx.settings().url.value), orNone(s.agent), s.started != "", s.links, s.next()}))
		return exitDone
	}
	s.sayLinks()
	if s.missing != nil {
		s.ctx.say("\nNot ready yet: %s.", s.ctx.paint()(red, s.firstBroken().Name))
		return s.missing.exit
	}
	s.ctx.say("\nReady. To go on:")
	for _, line := range s.next() {
		s.ctx.say("  %s", line)
	}
	return exitDone
}

func orNone(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
