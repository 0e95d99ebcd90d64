// doctor: every link between this folder and the broker, tried one after the other; the broken one is named.
//
// The last link is tried as it is used: a probe is left with the broker for a made-up session, and each installed hook is
// run as its host would run it. A session called doctor-… is answered from its probe alone, so that nobody's mail is
// touched and no running agent sees anything. Nothing is ever written here but the probe.
package main

import (
	"bytes"
	gocontext "context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"time"
)

const (
	doctorTimeout = 5 * time.Second
	hookTimeout   = 10 * time.Second // what the hosts are told to grant a hook
	settingsMax   = 4 << 20          // bytes of a host's settings that are read
)

var doctorOptions = []option{
	{name: "--trust-project", text: "also run hooks of this project that are more than a plain `inbox hook`"},
}

func init() {
	register(&command{
		name: "doctor", group: "set-up", summary: "Try every link from this folder to the broker.",
		usage: "doctor",
		help: helpText("Configuration, broker, token, task, and each installed hook, run as its host runs it. No mail is touched.\n"+
			"Exit code 50: a link is broken, and it is named.", doctorOptions,
			`inbox doctor`,
			`inbox doctor --task backend`,
			`inbox doctor --json`),
		run: runDoctor,
	})
}

// link is one thing that was tried.
type link struct {
	Name   string `json:"check"`
	State  string `json:"state"` // ok, broken, skipped
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	TookMs *int64 `json:"took_ms,omitempty"`
}

type checkup struct {
	ctx   *context
	links []link
}

func (c *checkup) ok(name, detail string) {
	c.links = append(c.links, link{Name: name, State: "ok", Detail: detail})
}

func (c *checkup) skipped(name, detail, hint string) {
	c.links = append(c.links, link{Name: name, State: "skipped", Detail: detail, Hint: hint})
}

func (c *checkup) broken(name, detail, hint string) {
	c.links = append(c.links, link{Name: name, State: "broken", Detail: detail, Hint: hint})
}

func (c *checkup) took(since time.Time) {
	ms := time.Since(since).Milliseconds()
	c.links[len(c.links)-1].TookMs = &ms
}

// firstBroken is the link to mend first; the others may only be its consequence.
func (c *checkup) firstBroken() *link {
	for at := range c.links {
		if c.links[at].State == "broken" {
			return &c.links[at]
		}
	}
	return nil
}

func runDoctor(ctx *context, args []string) int {
	read, problem := ctx.parse(doctorOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	check := &checkup{ctx: ctx}
	broker := check.configuration()
	reached := broker != nil && check.broker(broker)
	who := identity{}
	if reached {
		who = check.token(broker)
	} else {
		check.skipped("token", "not tried: there is no broker to ask", "")
	}
	here := workingDir()
	hooks := findHooks(here, check)
	task := check.task(broker, who, len(hooks) > 0)
	check.spool(broker)
	check.hooks(broker, task, here, hooks, read.has("--trust-project"))
	return check.report()
}

func (c *checkup) configuration() *broker {
	found := settingsFound(c.ctx.settings())
	broker, problem := c.ctx.connect()
	if problem != nil {
		c.broken("configuration", problem.message+" Found: "+found, problem.hint)
		return nil
	}
	broker.tries, broker.timeout, broker.flushed = 1, doctorTimeout, true
	c.ok("configuration", found)
	return broker
}

// settingsFound is every setting and its place, in one line.
func settingsFound(from *settings) string {
	var parts []string
	for _, row := range settingRows(from) {
		if row.Value == nil {
			if row.Name != "ca_file" {
				parts = append(parts, "no "+row.Name)
			}
			continue
		}
		parts = append(parts, row.Name+" "+*row.Value+" ("+*row.From+")")
	}
	return strings.Join(parts, " · ")
}

func (c *checkup) broker(broker *broker) bool {
	began := time.Now()
	status, _, problem := broker.post("GET", "/healthz", nil, doctorTimeout)
	if problem != nil {
		c.broken("broker", problem.message, problem.hint)
		return false
	}
	if status != 200 {
		c.broken("broker", fmt.Sprintf("What answers at %s is not well, or no broker: /healthz says %d.", withoutSecrets(broker.client.base), status),
			"Look at the broker's log.")
		return false
	}
	c.ok("broker", "answers at "+withoutSecrets(broker.client.base))
	c.took(began)
	return true
}

func (c *checkup) token(broker *broker) identity {
	var who identity
	if _, problem := broker.read("GET", "/v1/whoami", nil, &who); problem != nil {
		hint := problem.hint
		if problem.exit == exitDenied && hint == "" {
			hint = "Get one with `inbox login CODE`, or set INBOX_TOKEN; `inbox config` shows where this one comes from."
		}
		c.broken("token", problem.message, hint)
		return identity{}
	}
	said := "role " + who.Role
	if who.Task != "" {
		said += " of " + who.Task
	}
	c.ok("token", said+", namespace "+who.Namespace)
	return who
}

// task says whose inbox it is about; empty when that is not known or not there.
func (c *checkup) task(broker *broker, who identity, hooked bool) string {
	task := c.ctx.settings().task.value
	if task == "" {
		task = who.Task
	}
	switch {
	case who.Role == "":
		c.skipped("task", "not tried: an earlier link is broken", "")
		return ""
	case task == "" && hooked:
		c.broken("task", "No task is named here, so the hooks do not know whose mail to take.",
			"`inbox attach --task NAME` names it, or INBOX_TASK.")
		return ""
	case task == "":
		c.skipped("task", "none is named here", "`inbox attach --task NAME` names it, or INBOX_TASK.")
		return ""
	}
	var row taskRow
	problem := checkTask(task)
	if problem == nil {
		_, problem = broker.read("GET", taskPath(task, ""), nil, &row)
	}
	if problem != nil {
		hint := problem.hint
		if problem.code == "TASK_UNKNOWN" {
			hint = strings.TrimSpace(hint + " `inbox task declare " + task + "` makes it.")
		}
		c.broken("task", problem.message, hint)
		return ""
	}
	said := task + " is " + row.State + ", " + counted(row.Pending, "message") + " waiting"
	if row.Dead > 0 {
		said += ", " + counted(row.Dead, "dead letter")
	}
	c.ok("task", said)
	return task
}

// spool only tells; flushing is for commands that do something.
func (c *checkup) spool(broker *broker) {
	folder := spoolDir()
	all, refused := len(readSpool(folder)), len(spoolNames(filepath.Join(folder, "refused")))
	own := 0
	if broker != nil {
		own = len(broker.ours())
	}
	if own > 0 {
		c.skipped("spool", counted(own, "message")+" to be sent by the next command, in "+folder, "")
	}
	if all > own {
		c.skipped("spool", counted(all-own, "message")+" of another token or broker, in "+folder, "They go when that is used here again.")
	}
	if refused > 0 {
		c.skipped("spool", counted(refused, "message")+" that the broker refused, in "+filepath.Join(folder, "refused"),
			"Read why, then take them away.")
	}
}

// Hooks: where hosts keep them, and what is found there.

// installed is one hook command in one settings file.
type installed struct {
	host    string // whose file it is in
	speaks  string // the host named on its command line; empty for none
	file    string
	project bool // the file belongs to the folder, and may have come with a repository
	events  []string
	command string
	args    []string // of a command that is run without a shell
}

// shown is the command as a person would type it.
func (i *installed) shown() string {
	return strings.Join(append([]string{i.command}, i.args...), " ")
}

// hostFiles are the settings of the hosts, within a folder or a home.
var hostFiles = []struct{ host, path string }{
	{"claude", ".claude/settings.json"}, {"claude", ".claude/settings.local.json"},
	{"codex", ".codex/hooks.json"}, {"gemini", ".gemini/settings.json"}, {"qwen", ".qwen/settings.json"},
}

// findHooks looks through the hosts' settings, of this folder and of the account, and changes nothing.
func findHooks(here string, check *checkup) []*installed {
	home, _ := os.UserHomeDir()
	var found []*installed
	look := func(host, path string, project bool) {
		text, err := os.ReadFile(path)
		if err != nil {
			return
		}
		if len(text) > settingsMax {
			return
		}
		some, off, ok := hooksIn(host, text)
		if !ok {
			if bytes.Contains(text, []byte("inbox")) {
				check.broken("hooks", path+" is not valid JSON, so its hooks do not run.", "Mend it.")
			}
			return
		}
		if off && len(some) > 0 {
			check.broken("hooks", path+" has disableAllHooks: its hooks do not run.", "Take that line out.")
		}
		for _, one := range some {
			one.file, one.project = path, project
			found = append(found, one)
		}
	}
	for _, folder := range foldersUp(here, home) {
		for _, one := range hostFiles {
			look(one.host, filepath.Join(folder, filepath.FromSlash(one.path)), true)
		}
		paths, _ := filepath.Glob(filepath.Join(folder, ".github", "hooks", "*.json"))
		for _, path := range paths {
			look("copilot", path, true)
		}
	}
	if at, err := findSite(here); err == nil && at.top != "" && at.repository != at.worktree {
		look("codex", filepath.Join(at.repository, ".codex", "hooks.json"), true) // it reads a linked worktree's there
	}
	if home != "" {
		for _, one := range hostFiles {
			look(one.host, filepath.Join(home, filepath.FromSlash(one.path)), false)
		}
		paths, _ := filepath.Glob(filepath.Join(home, ".copilot", "hooks", "*.json"))
		for _, path := range paths {
			look("copilot", path, false)
		}
	}
	return found
}

// foldersUp is this folder and those above it, up to the one that holds the repository.
func foldersUp(here, home string) []string {
	var folders []string
	for folder := here; folder != "" && folder != home; folder = filepath.Dir(folder) {
		folders = append(folders, folder)
		if _, err := os.Stat(filepath.Join(folder, ".git")); err == nil {
			return folders
		}
		if filepath.Dir(folder) == folder {
			break
		}
	}
	if len(folders) > 0 {
		return folders[:1] // no repository: only where we stand
	}
	return nil
}

// hookForm is made when it is needed: a hook must not wait for it.
func hookForm() *regexp.Regexp {
	return regexp.MustCompile(`inbox(?:\.exe)?["']?\s+hook\b\s*([a-z]*)`)
}

// hooksIn finds the commands that run `inbox hook` in one settings file.
func hooksIn(host string, text []byte) (found []*installed, off, ok bool) {
	root, broken := parseJSON(text, host == "gemini" || host == "qwen") // these allow comments
	if broken != nil {
		return nil, false, false
	}
	var settings, hooks map[string]any
	if root != nil {
		settings, _ = plainValue(text, root).(map[string]any)
	}
	hooks, _ = settings["hooks"].(map[string]any)
	off, _ = settings["disableAllHooks"].(bool)
	form := hookForm()
	known := map[string]*installed{}
	var walk func(event string, value any)
	walk = func(event string, value any) {
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				walk(event, one)
			}
		case map[string]any:
			one := &installed{host: host}
			for _, name := range []string{"command", shellField()} {
				if text, isText := value[name].(string); isText {
					one.command = text
				}
			}
			if list, isList := value["args"].([]any); isList {
				for _, arg := range list {
					one.args = append(one.args, fmt.Sprint(arg))
				}
			}
			if parts := form.FindStringSubmatch(one.shown()); parts != nil && one.command != "" {
				if known[one.shown()] == nil {
					one.speaks = parts[1]
					known[one.shown()] = one
					found = append(found, one)
				}
				known[one.shown()].events = append(known[one.shown()].events, event)
			}
			walk(event, value["hooks"])
		}
	}
	events := make([]string, 0, len(hooks))
	for event := range hooks {
		events = append(events, event)
	}
	sort.Strings(events)
	for _, event := range events {
		walk(event, hooks[event])
	}
	return found, off, true
}

// shellField is where Copilot writes the command for this platform.
func shellField() string {
	if runtime.GOOS == "windows" {
		return "powershell"
	}
	return "bash"
}

// afterTool is the event that every host fires most, by its name there.
func afterTool(host string) string {
	if host == "gemini" {
		return "AfterTool"
	}
	return "PostToolUse"
}

// hooks lists what is installed and runs each of them.
func (c *checkup) hooks(broker *broker, task, here string, found []*installed, trusted bool) {
	if len(found) == 0 {
		own, err := os.Executable()
		if err != nil || task == "" {
			c.skipped("hooks", "none are installed for this folder or this account", "`inbox attach --task TASK` installs them.")
		} else {
			c.skipped("hooks", "none are installed for this folder or this account",
				"`inbox attach --task TASK` installs them; the built-in `inbox hook claude` is tried instead.")
			c.probe(broker, task, here, &installed{host: "claude", speaks: "claude", command: own, args: []string{"hook", "claude"}})
		}
		return
	}
	for _, one := range found {
		where := one.host + ": " + one.file + " (" + counted(len(one.events), "event") + ")"
		switch {
		case one.speaks != "" && one.speaks != one.host:
			c.broken("hooks", where+" runs `"+one.shown()+"`, which speaks to another host.", "Write `inbox hook "+one.host+"` there.")
			continue
		case !contains(one.events, afterTool(one.host)):
			c.ok("hooks", where+", none of them "+afterTool(one.host)+": mail waits for the others")
		default:
			c.ok("hooks", where)
		}
		switch {
		case task == "":
			c.skipped(one.host, "not tried: an earlier link is broken", "")
		case one.project && !trusted && !isPlainHook(one):
			c.skipped(one.host, "not tried: `"+cutTo(oneLine(one.shown()), 80)+"` of this project is more than a plain `inbox hook`",
				"Read it; `inbox doctor --trust-project` runs it.")
		default:
			c.probe(broker, task, here, one)
		}
	}
}

// plainLetters are those that a shell takes as they are.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-"

// firstQuoted is the first word of a command line that stands in single quotes, and what stands behind it.
func firstQuoted(line string) (word, rest string, ok bool) {
	if !strings.HasPrefix(line, "'") {
		return "", "", false
	}
	word, rest, ok = strings.Cut(line[1:], "'")
	if !ok || !strings.HasPrefix(rest, " ") {
		return "", "", false
	}
	return word, rest[1:], true
}

// isPlainHook says whether a command of a project's file does nothing but run an inbox that is ours: the one on the PATH,
// or this very file. A repository may have brought the file, and asking what is wrong is no consent to run what is in it.
func isPlainHook(one *installed) bool {
	words := strings.Split(one.command, " ")
	if quoted, rest, isQuoted := firstQuoted(one.command); isQuoted && filepath.IsAbs(quoted) {
		words = append([]string{quoted}, strings.Split(rest, " ")...)
	}
	words = append(words, one.args...)
	for len(words) > 0 && strings.HasPrefix(words[0], "INBOX_TASK=") && isTask(strings.TrimPrefix(words[0], "INBOX_TASK=")) {
		words = words[1:]
	}
	if len(words) < 2 || words[1] != "hook" {
		return false
	}
	// Not --url or --log: they would send a token, or write, where a repository says.
	for _, word := range words[2:] {
		if !isTask(word) && !contains([]string{"--remind", "--linger", "--deadline-ms", "--task"}, word) {
			return false
		}
	}
	if words[0] == "inbox" {
		return true
	}
	if words[0] == strings.Split(one.command, " ")[0] && strings.Trim(words[0], plainLetters) != "" {
		return false // the shell would read it differently
	}
	own, err := os.Executable()
	if err != nil || !filepath.IsAbs(words[0]) {
		return false
	}
	ownFile, err1 := os.Stat(own)
	named, err2 := os.Stat(words[0])
	return err1 == nil && err2 == nil && os.SameFile(ownFile, named)
}

// probe leaves a nonce with the broker and asks that the hook brings it, in its host's form.
func (c *checkup) probe(broker *broker, task, here string, one *installed) {
	nonce, session := randomHex(16), "doctor-"+randomHex(8)
	_, problem := broker.ask("POST", taskPath(task, "probe"), map[string]string{"session": session, "nonce": nonce})
	if problem != nil && problem.exit == exitDenied {
		c.denied(problem)
		c.skipped(one.host, "not tried: an earlier link is broken", "")
		return
	}
	if problem != nil {
		hint := problem.hint
		if problem.code == "ROUTE_UNKNOWN" {
			hint = "The broker is older than this binary."
		}
		c.broken(one.host, "The broker takes no probe: "+problem.message, hint)
		return
	}
	began := time.Now()
	printed, said, err := c.run(one, here, hookInput(one.host, session, here))
	if missing, hint := judgeHook(one, nonce, printed, said, err); missing != "" {
		if one.file != "" && (c.ctx.task != "" || c.ctx.url != "") {
			hint = "It is not told what a flag says here: `inbox attach --task " + task + "` writes that down for this folder."
		}
		c.broken(one.host, "`"+cutTo(oneLine(one.shown()), 80)+"` "+missing, hint)
		c.took(began)
		return
	}
	c.ok(one.host, "the probe came through `"+cutTo(oneLine(one.shown()), 80)+"`")
	c.took(began)
}

// denied says of a token that was found to be one, but may not do what a hook does.
func (c *checkup) denied(why *problem) {
	for at := range c.links {
		if one := &c.links[at]; one.Name == "token" && one.State == "ok" {
			one.State, one.Detail = "broken", one.Detail+": "+why.message
			one.Hint = strings.TrimSpace(why.hint + " `inbox attach` gets one that does; `inbox config` shows where this one comes from.")
		}
	}
}

// run calls the command as the host would: through the shell, in this folder, with its input on stdin.
func (c *checkup) run(one *installed, here string, input []byte) (printed, said []byte, err error) {
	limit, cancel := gocontext.WithTimeout(gocontext.Background(), hookTimeout)
	defer cancel()
	var process *exec.Cmd
	switch {
	case one.args != nil:
		process = exec.CommandContext(limit, one.command, one.args...)
	case runtime.GOOS == "windows":
		process = exec.CommandContext(limit, "cmd", "/C", one.command)
	default:
		process = exec.CommandContext(limit, "/bin/sh", "-c", one.command)
	}
	process.Dir = here
	process.Env = append(os.Environ(), strings.ToUpper(one.host)+"_PROJECT_DIR="+here)
	if one.file == "" { // our own stands in for a hook: it is asked with what was asked of us
		if c.ctx.url != "" {
			process.Env = append(process.Env, "INBOX_URL="+c.ctx.url)
		}
		if c.ctx.task != "" {
			process.Env = append(process.Env, "INBOX_TASK="+c.ctx.task)
		}
	}
	var stdout, stderr bytes.Buffer
	process.Stdin, process.Stdout, process.Stderr = bytes.NewReader(input), &stdout, &stderr
	process.WaitDelay = time.Second // a child that keeps stdout open
	err = process.Run()
	if limit.Err() != nil {
		err = limit.Err()
	}
	return stdout.Bytes(), stderr.Bytes(), err
}

// judgeHook says what is wrong with what a hook printed; nothing, if it is right.
func judgeHook(one *installed, nonce string, printed, said []byte, err error) (wrong, hint string) {
	words := cutTo(oneLine(string(said)), 120)
	var exit *exec.ExitError
	switch {
	case errors.Is(err, gocontext.DeadlineExceeded):
		return fmt.Sprintf("was not done after %d s.", hookTimeout/time.Second), "The host throws its output away; look what it waits for."
	case errors.As(err, &exit):
		hint := "Run it by hand."
		if exit.ExitCode() == 126 || exit.ExitCode() == 127 {
			hint = "Put inbox on the PATH, or write its whole path into " + one.file + "."
		}
		return fmt.Sprintf("ended with %d: %s", exit.ExitCode(), words), hint
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "cannot be run: " + err.Error() + ".", "Put inbox on the PATH, or write its whole path into " + one.file + "."
	case len(bytes.TrimSpace(printed)) == 0:
		if words != "" {
			words = " It said: " + words
		}
		return "printed nothing." + words,
			"It may have another broker, token or task than this shell: run `inbox config` where the host runs it."
	case !json.Valid(printed):
		return "printed what is no JSON: " + cutTo(oneLine(string(printed)), 80), "Something prints before it, and the host drops the whole."
	}
	var answer struct {
		Context  string `json:"additionalContext"`
		Specific struct {
			Event   string `json:"hookEventName"`
			Context string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	json.Unmarshal(printed, &answer)
	text := answer.Specific.Context
	if one.host == "copilot" {
		text = answer.Context
	}
	switch {
	case !strings.Contains(text, nonce):
		return "did not bring the probe.", "It may ask another broker or for another task than this shell."
	case one.host != "copilot" && answer.Specific.Event != afterTool(one.host):
		return "answers for another event, " + oneLine(answer.Specific.Event) + ".", "The host drops that: the broker may not know this version of it."
	}
	return "", ""
}

// hookInput is what a host puts on a hook's stdin after a tool ran.
func hookInput(host, session, here string) []byte {
	transcript := filepath.Join(os.TempDir(), session+".jsonl")
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	fields := map[string]any{
		"session_id":      session,
		"cwd":             here,
		"hook_event_name": afterTool(host),
		"tool_name":       "Bash",
		"tool_input":      map[string]any{"command": "true"},
		"tool_response":   map[string]any{"stdout": "", "stderr": "", "interrupted": false},
	}
	switch host {
	case "claude":
		fields["transcript_path"], fields["permission_mode"] = transcript, "default"
		fields["prompt_id"], fields["tool_use_id"], fields["duration_ms"] = session, "toolu_"+session, 1
	case "codex":
		fields["transcript_path"], fields["permission_mode"] = transcript, "default"
		fields["turn_id"], fields["model"], fields["tool_use_id"] = "1", "doctor", "call_"+session
		fields["tool_response"] = ""
	case "gemini":
		fields["transcript_path"], fields["timestamp"] = transcript, now
		fields["tool_name"] = "run_shell_command"
		fields["tool_response"] = map[string]any{"llmContent": "", "returnDisplay": ""}
	case "qwen":
		fields["transcript_path"] = filepath.Join(os.TempDir(), ".qwen", "tmp", session+".jsonl")
		fields["timestamp"], fields["tool_name"], fields["tool_use_id"] = now, "run_shell_command", "call_"+session
	case "copilot":
		fields["timestamp"], fields["tool_name"] = now, "bash"
		delete(fields, "tool_response")
		fields["tool_result"] = map[string]any{"result_type": "success", "text_result_for_llm": ""}
	}
	return jsonOf(fields)
}

func randomHex(bytes int) string {
	value := make([]byte, bytes)
	rand.Read(value)
	return hex.EncodeToString(value)
}

// report prints every link and ends with 50 if one is broken.
func (c *checkup) report() int {
	broken := c.firstBroken()
	if c.ctx.json {
		type said struct {
			Code         string  `json:"code"`
			Message      string  `json:"message"`
			Hint         *string `json:"hint"`
			RetryAfterMs *int64  `json:"retry_after_ms"`
		}
		shape := struct {
			OK      bool   `json:"ok"`
			Command string `json:"command"`
			Error   *said  `json:"error,omitempty"`
			Checks  []link `json:"checks"`
		}{broken == nil, c.ctx.command.name, nil, c.links}
		if broken != nil {
			shape.Error = &said{Code: "LINK_BROKEN", Message: broken.Name + ": " + broken.Detail}
			if broken.Hint != "" {
				shape.Error.Hint = &broken.Hint
			}
		}
		c.ctx.stdout.Write(append(jsonOf(shape), '\n'))
	} else {
		c.sayLinks()
		if broken != nil {
			c.ctx.say("\nThe broken link: %s.", c.ctx.paint()(red, broken.Name))
		} else {
			c.ctx.say("\nEverything that was tried works.")
		}
	}
	if broken != nil {
		return exitBroken
	}
	return exitDone
}

func (c *checkup) sayLinks() {
	paint := c.ctx.paint()
	marks := map[string]string{"ok": paint(green, "✓"), "broken": paint(red, "✗"), "skipped": paint(dim, "–")}
	width := 0
	for _, one := range c.links {
		width = max(width, columns(one.Name))
	}
	for _, one := range c.links {
		line := marks[one.State] + " " + paint(bold, pad(one.Name, width)) + "  " + oneLine(one.Detail)
		if one.TookMs != nil {
			line += paint(dim, fmt.Sprintf(" (%d ms)", *one.TookMs))
		}
		c.ctx.say("%s", line)
		if one.Hint != "" {
			c.ctx.say("  %s  %s", strings.Repeat(" ", width), paint(dim, "→ ")+oneLine(one.Hint))
		}
	}
}
