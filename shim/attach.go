// attach: this worktree becomes a task's place. The broker declares the task and says what each host needs in which file; the
// files are edited as edits.go does it, and .inbox/attached.json remembers how to go back.
//
// The token goes into .inbox/config.json and nowhere else: for this account only, in a folder that git does not see. Who
// attaches speaks with a token of the account's, never with one that lies in the worktree, unless there is no other.
package main

import (
	"bytes"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const attachLock = 10 * time.Second // for another one at work

var attachOptions = []option{
	{name: "--peer", value: "TASK", text: "link it to this task; may be repeated", many: true},
	{name: "--host", value: "HOSTS", text: "claude, codex, gemini, qwen, copilot; with commas, or repeated (those found here)", many: true},
	{name: "--dir", value: "FOLDER", text: "the worktree (this folder)"},
	{name: "--dry-run", text: "show what would change, and change nothing"},
	{name: "--status", text: "show what is installed, trusted and working instead"},
	{name: "--wake", text: "with hooks that wake an idle session, where the host has a way"},
	{name: "--remind", text: "hooks that only say that mail waits, and not what is in it"},
}

func init() {
	register(&command{
		name: "attach", group: "set-up", summary: "Wire the agents of a worktree to a task's inbox.",
		usage: "attach --task TASK [--peer TASK] [--host HOSTS] [--dir FOLDER] [--dry-run] | attach --status",
		help: helpText("Declares the task, links its peers, puts a token for it into .inbox/ (readable by your account, ignored by git) and\n"+
			"adds hooks, the MCP server, a standing instruction and the skill to the files of each host. Everything else in\n"+
			"those files stays as it is; saying it again changes nothing; `inbox detach` takes it all out. Hosts that are not\n"+
			"named are those of the last time, or those whose command or folder is found here, or claude. What is not said\n"+
			"stays as it was. A file that is read-only, malformed or linked from elsewhere is refused, and nothing changes.", attachOptions,
			`inbox attach --task backend --peer frontend`,
			`inbox attach --task backend --host claude,codex --dry-run`,
			`inbox attach --status`),
		run: runAttach,
	})
}

// attaching is the work of one attach.
type attaching struct {
	ctx    *context
	broker *broker
	who    identity
	site   *site
	task   string
	peers  []string
	hosts  []string // asked for; none: those found
	wake   bool
	remind bool

	was     *attachment
	shared  *sharedFiles
	plans   []*plan
	targets []*target
	config  *target
	own     string // the token that the worktree has
	notes   []string
}

func runAttach(ctx *context, args []string) int {
	read, problem := ctx.parse(attachOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	at, problem := ctx.worktree(read.get("--dir"))
	if problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--status") {
		return attachStatus(ctx, at)
	}
	work := &attaching{ctx: ctx, site: at, task: ctx.task, peers: read.all("--peer"), hosts: splitHosts(read.all("--host")),
		wake: read.has("--wake"), remind: read.has("--remind")}
	if !read.has("--dry-run") {
		release, problem := lockAttach()
		if problem != nil {
			return ctx.fail(problem)
		}
		defer release()
	}
	if problem := work.prepare(); problem != nil {
		return ctx.fail(problem)
	}
	if read.has("--dry-run") {
		return work.show()
	}
	done, problem := work.carryOut()
	if problem != nil {
		return ctx.fail(problem)
	}
	return work.say(done)
}

// worktree is the folder that is meant.
func (ctx *context) worktree(given string) (*site, *problem) {
	if given == "" {
		given = "."
	}
	about, err := os.Stat(given)
	if err != nil || !about.IsDir() {
		return nil, refuseFile("FOLDER_UNKNOWN", "There is no folder "+given+".", "Give the worktree with --dir FOLDER.")
	}
	at, err := findSite(given)
	if err != nil {
		return nil, refuseFile("FOLDER_UNFIT", oneLine(given)+" cannot be used: "+reason(err)+".", "Give the worktree with --dir FOLDER.")
	}
	home, _ := os.UserHomeDir()
	if real, err := filepath.EvalSymlinks(home); err == nil && (real == at.worktree || filepath.Dir(at.worktree) == at.worktree) {
		return nil, refuseFile("FOLDER_UNFIT", at.worktree+" is no worktree: everything below it would be attached.", "Go to a project, or name it with --dir FOLDER.")
	}
	if isGits(at.worktree) {
		return nil, refuseFile("FOLDER_UNFIT", at.worktree+" is git's own folder, and no worktree.", "Go to a worktree, or name it with --dir FOLDER.")
	}
	return at, nil
}

func splitHosts(given []string) []string {
	var hosts []string
	for _, list := range given {
		for _, host := range strings.FieldsFunc(list, func(letter rune) bool { return letter == ',' || letter == ' ' }) {
			if !contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// lockAttach keeps two of them from editing at once.
func lockAttach() (func(), *problem) {
	cache := cacheDir()
	if cache == "" {
		return func() {}, nil
	}
	release, err := lockSpool(filepath.Join(cache, "attach.lock"), attachLock)
	if err != nil {
		if errors.Is(err, errLocked) {
			return nil, &problem{code: "ATTACH_BUSY", message: "Another `inbox attach` is at work on this account.", hint: "Try again.", exit: exitConflict}
		}
		return func() {}, nil // a cache that cannot be written is no reason not to attach
	}
	return release, nil
}

// accountSettings are those of the account: a token that lies in a worktree is an agent's, and attaches nothing.
func (ctx *context) accountSettings(worktree string) *settings {
	found := readSettings(ctx.url, "", "")
	if found.url.value == "" || found.token.value == "" && found.withheld == "" {
		found = readSettings(ctx.url, "", worktree)
	}
	return found
}

// prepare asks the broker what is needed and works out every file; nothing is changed, there or here.
func (a *attaching) prepare() *problem {
	var refusal *problem
	if a.was, refusal = readAttachment(a.site.worktree); refusal != nil {
		return refusal
	}
	if a.task == "" {
		a.task = os.Getenv("INBOX_TASK")
	}
	if a.task == "" && a.was != nil {
		a.task = a.was.Task
	}
	if a.task == "" {
		return invalidInput("No task is named.", "Give it a name: inbox attach --task backend.")
	}
	if a.was != nil { // what is not said stays
		a.wake, a.remind = a.wake || a.was.Wake, a.remind || a.was.Remind
	}
	for _, name := range append([]string{a.task}, a.peers...) {
		if problem := checkTask(name); problem != nil {
			return problem
		}
	}
	if contains(a.peers, a.task) {
		return invalidInput(a.task+" cannot be its own peer.", "Leave that --peer out.")
	}
	if a.broker == nil {
		a.ctx.found = a.ctx.accountSettings(a.site.worktree)
		if a.broker, refusal = a.ctx.connect(); refusal != nil {
			return refusal
		}
	}
	if _, refusal = a.broker.read("GET", "/v1/whoami", nil, &a.who); refusal != nil {
		return refusal
	}
	if a.who.Role == "agent" && a.who.Task != a.task {
		return &problem{code: "FORBIDDEN", message: "The token from " + a.ctx.settings().token.from + " is the agent's of " + a.who.Task + ", and can attach nobody else.",
			hint: "Use the person's own (`inbox login CODE`), or the operator's.", exit: exitDenied}
	}
	if refusal = a.choosePlans(); refusal != nil {
		return refusal
	}
	if refusal = a.findTargets(); refusal != nil {
		return refusal
	}
	return a.settleTargets("")
}

// choosePlans asks for the plan of every host that is meant.
func (a *attaching) choosePlans() *problem {
	var known struct {
		Hosts []struct {
			Host    string   `json:"host"`
			Program string   `json:"program"`
			Signs   []string `json:"signs"`
		} `json:"hosts"`
	}
	if _, problem := a.broker.read("GET", "/v1/hosts", nil, &known); problem != nil {
		return olderBroker(problem)
	}
	var names, found []string
	for _, one := range known.Hosts {
		names = append(names, one.Host)
		_, err := exec.LookPath(one.Program)
		here := err == nil
		for _, sign := range one.Signs {
			if _, err := os.Stat(filepath.Join(a.site.worktree, filepath.FromSlash(sign))); err == nil {
				here = true
			}
		}
		if here {
			found = append(found, one.Host)
		}
	}
	hosts := a.hosts
	if len(hosts) == 0 && a.was != nil {
		hosts = a.was.Hosts
	}
	if len(hosts) == 0 {
		hosts = found
	}
	if len(hosts) == 0 && len(names) > 0 {
		hosts = names[:1]
	}
	for _, host := range hosts {
		if !contains(names, host) {
			hint := "There are " + strings.Join(names, ", ") + "."
			if near := nearest(host, names); near != "" {
				hint = "Did you mean " + near + "?"
			}
			return invalidInput("No host is called `"+host+"`.", hint)
		}
	}
	a.hosts = hosts
	binary, problem := ownPath()
	if problem != nil {
		return problem
	}
	query := url.Values{"binary": {binary}, "windows": {strconv.FormatBool(runtime.GOOS == "windows")},
		"wake": {strconv.FormatBool(a.wake)}, "remind": {strconv.FormatBool(a.remind)}}
	for _, host := range hosts {
		got := &plan{}
		if _, problem := a.broker.read("GET", "/v1/hosts/"+url.PathEscape(host)+"/plan?"+query.Encode(), nil, got); problem != nil {
			return problem
		}
		a.plans = append(a.plans, got)
	}
	return nil
}

func olderBroker(refused *problem) *problem {
	if refused.code == "ROUTE_UNKNOWN" {
		refused.hint = "The broker is older than this binary."
	}
	return refused
}

// ownPath is this binary as it was called: by the name a package manager keeps, not by the file of one version.
func ownPath() (string, *problem) {
	running, err := os.Executable()
	if err != nil {
		return "", &problem{code: "INTERNAL", message: "This binary does not know where it is: " + err.Error() + ".", exit: exitBroken}
	}
	called, err := exec.LookPath(os.Args[0])
	if err == nil {
		called, err = filepath.Abs(called)
	}
	if err != nil {
		return running, nil
	}
	one, err1 := os.Stat(called)
	other, err2 := os.Stat(running)
	if err1 != nil || err2 != nil || !os.SameFile(one, other) {
		return running, nil
	}
	return called, nil
}

// findTargets gathers the files: those that an earlier attach knows, and those that the plans name.
func (a *attaching) findTargets() *problem {
	var refusal *problem
	if a.shared, refusal = readShared(a.site); refusal != nil {
		return refusal
	}
	if a.was != nil {
		for _, record := range a.was.Files {
			if _, refusal = a.target(record.Base, record.File, record); refusal != nil {
				return refusal
			}
		}
	}
	for _, record := range a.shared.Files {
		if contains(record.Users, a.site.worktree) {
			if _, refusal = a.target(record.Base, record.File, record); refusal != nil {
				return refusal
			}
		}
	}
	for _, one := range a.plans {
		for _, wanted := range one.Edits {
			wanted.Host = one.Host
			at, refusal := a.target(wanted.Base, wanted.File, nil)
			if refusal != nil {
				return refusal
			}
			at.edits = append(at.edits, wanted)
		}
	}
	if a.config, refusal = a.target(inWorktree, ".inbox/config.json", nil); refusal != nil {
		return refusal
	}
	a.config.mode = 0o600
	values, _, _ := readConfig(a.config.path)
	if tokenName(values[1]) != "" {
		a.own = values[1]
	}
	ignore, refusal := a.target(inWorktree, ".inbox/.gitignore", nil)
	if refusal != nil {
		return refusal
	}
	if ignore.record != nil || !endsIgnored(ignore.current, "*") {
		ignore.edits = []edit{{What: "token", Form: "line", Text: "*"}}
	}
	if a.site.git != "" && isTracked(a.site.worktree, ".inbox/config.json") {
		return refuseFile("FILE_TRACKED", a.config.path+" is in git, so the next commit would publish the token in it.",
			"`git rm --cached .inbox/config.json` takes it out of git and leaves it here.")
	}
	return nil
}

// endsIgnored says whether a list of what git ignores has this line, and none behind it that takes something back.
func endsIgnored(list []byte, wanted string) bool {
	ignored := false
	for _, line := range strings.Split(string(list), "\n") {
		line = strings.TrimRight(line, " \t\r")
		ignored = line == wanted || ignored && !strings.HasPrefix(line, "!")
	}
	return ignored
}

// isTracked asks git, where there is one, whether it keeps a file.
func isTracked(folder, file string) bool {
	said, err := git(folder, "ls-files", "--", file)
	return err == nil && said != ""
}

// target is the work on one file, found by where it really is: two names may be one file.
func (a *attaching) target(base, file string, record *fileRecord) (*target, *problem) {
	if base == "" {
		base = inWorktree
	}
	made := &target{site: a.site, base: base, file: file, record: record}
	if problem := made.open(); problem != nil {
		return nil, problem
	}
	for _, one := range a.targets {
		if one.path == made.path {
			return one, nil
		}
	}
	if record == nil && a.site.shares(base) {
		for _, shared := range a.shared.Files {
			if shared.File == file {
				made.record = shared
			}
		}
	}
	a.targets = append(a.targets, made)
	return made, nil
}

// settleTargets works out what every file becomes. Without a token one that is not made yet stands in for it.
func (a *attaching) settleTargets(token string) *problem {
	if token == "" {
		token = a.own
	}
	if token == "" {
		token = "(a new one)"
	}
	from := a.ctx.settings()
	values := []struct{ name, value string }{{"url", from.url.value}, {"token", token}, {"task", a.task}}
	if from.caFile.value != "" {
		file, err := filepath.Abs(from.caFile.value)
		if err == nil {
			values = append(values, struct{ name, value string }{"ca_file", file})
		}
	}
	wanted := edit{What: "token", Form: "json"}
	for _, one := range values {
		wanted.Additions = append(wanted.Additions, addition{Path: []string{one.name}, How: "put", Value: jsonOf(one.value)})
	}
	a.config.edits = []edit{wanted}
	var exclude *target
	for _, one := range a.targets {
		one.notes = nil
		if one.base == inGit {
			exclude = one
			continue
		}
		if problem := one.settle(); problem != nil {
			return problem
		}
	}
	// The record remembers which settings were put, not what they say: the token has one place.
	for at := range a.config.fresh.Edits {
		for part := range a.config.fresh.Edits[at].Additions {
			a.config.fresh.Edits[at].Additions[part].Value = nil
		}
	}
	return a.settleExclude(exclude)
}

// settleExclude keeps git from seeing files that are new and name things of this machine. It is a convenience: where it cannot
// be done it is left.
func (a *attaching) settleExclude(exclude *target) *problem {
	if a.site.git == "" {
		return nil
	}
	var lines []string
	for _, one := range a.targets {
		if one.fresh == nil || !one.fresh.Made {
			continue
		}
		for _, wanted := range one.edits {
			within, err := filepath.Rel(a.topOf(one), one.path)
			if line := "/" + ignorePattern(filepath.ToSlash(within)); wanted.Personal && err == nil && filepath.IsLocal(within) && !contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	if exclude == nil {
		if len(lines) == 0 {
			return nil
		}
		made, problem := a.target(inGit, "info/exclude", nil)
		if problem != nil {
			a.notes = append(a.notes, problem.message)
			return nil
		}
		exclude = made
	}
	exclude.edits = nil
	slices.Sort(lines)
	if len(lines) > 0 {
		marks := [2]string{"# inbox attach in " + a.site.worktree + ": begin", "# inbox attach in " + a.site.worktree + ": end"}
		exclude.edits = []edit{{What: "git", Form: "block", Marks: &marks, Text: strings.Join(lines, "\n")}}
	}
	if problem := exclude.settle(); problem != nil {
		if exclude.record != nil {
			return problem
		}
		a.notes = append(a.notes, problem.message)
		a.targets = slices.DeleteFunc(a.targets, func(one *target) bool { return one == exclude })
	}
	return nil
}

// topOf is the top of the checkout that a file is in.
func (a *attaching) topOf(one *target) string {
	if one.base == inRepository && a.site.repository != a.site.worktree {
		return a.site.repository
	}
	return a.site.top
}

// ignorePattern is a path as git's exclude file takes it.
func ignorePattern(path string) string {
	var out strings.Builder
	for _, letter := range path {
		if strings.ContainsRune(`\*?[ `, letter) {
			out.WriteByte('\\')
		}
		out.WriteRune(letter)
	}
	return out.String()
}

// attached is what came of it.
type attached struct {
	Task    taskRow `json:"task"`
	Created bool    `json:"created"`
	Token   *struct {
		Token string `json:"token"`
	} `json:"token"`
}

// carryOut asks the broker for the task and its token, and writes every file.
func (a *attaching) carryOut() (*attached, *problem) {
	a.site.sweepRecords()
	label := "attach " + a.site.worktree
	if machine, err := os.Hostname(); err == nil {
		label += " on " + machine
	}
	peers := a.peers
	if peers == nil {
		peers = []string{}
	}
	request := map[string]any{"task": a.task, "peers": peers, "label": cutTo(oneLine(label), 290)}
	if a.own != "" {
		request["token_id"] = tokenName(a.own)[strings.Index(a.own, ".")+1:]
	}
	// Asked once: each answer may bring another token.
	answer, refusal := a.broker.once("POST", "/v1/attach", request)
	if refusal != nil {
		return nil, olderBroker(refusal)
	}
	done := &attached{}
	if refusal := understand(answer, done); refusal != nil {
		return nil, refusal
	}
	token := a.own
	switch {
	case done.Token != nil:
		token = done.Token.Token
	case a.who.Role == "agent":
		token = a.broker.client.token
	}
	refusal = a.settleTargets(token)
	if refusal == nil {
		refusal = a.write(token)
	}
	if refusal != nil {
		if done.Token != nil {
			a.revoke(done.Token.Token)
		}
		return nil, refusal
	}
	if a.was != nil && a.own != "" && a.own != token && tokenName(a.own) == a.was.TokenName {
		if problem := a.revoke(a.own); problem != nil && problem.exit != exitDenied {
			a.notes = append(a.notes, "The token "+a.was.TokenName+" that was here before could not be revoked: "+problem.message)
		}
	}
	return done, nil
}

// revoke gives a token up, in its own name.
func (a *attaching) revoke(token string) *problem { return revokeToken(a.ctx.settings(), token) }

func revokeToken(from *settings, token string) *problem {
	own := *from
	own.token, own.withheld = setting{value: token, from: "attach"}, ""
	asking, problem := newClient(&own)
	if problem != nil {
		return problem
	}
	_, id, _ := strings.Cut(tokenName(token), ".")
	broker := &broker{client: asking, tries: 1, timeout: doctorTimeout, flushed: true}
	_, problem = broker.once("DELETE", "/v1/tokens/"+id, nil)
	return problem
}

// write makes all files what they become, or leaves all as they were. What was done is written down before it is done, so that
// it can be undone whenever this ends.
func (a *attaching) write(token string) *problem {
	record := &attachment{Version: attachVersion, Inbox: version, Task: a.task, Hosts: a.hosts, URL: a.ctx.settings().url.value,
		TokenName: tokenName(token), Wake: a.wake, Remind: a.remind, AtMs: time.Now().UnixMilli()}
	for _, one := range a.plans {
		for _, note := range one.Trust {
			record.Trust = append(record.Trust, hostTrust{one.Host, note})
		}
	}
	shared := &sharedFiles{Version: attachVersion}
	for _, known := range a.shared.Files {
		if known.Users = stillUsing(known.Users, a.site.worktree); len(known.Users) > 0 {
			shared.Files = append(shared.Files, known)
		}
	}
	var changes []*change
	var leaving, sharedLeaving []*fileRecord // what is taken out: it is known until it is gone
	for _, one := range a.targets {
		if one.fresh != nil && a.site.shares(one.base) {
			one.fresh.Users = []string{a.site.worktree}
			for at, known := range shared.Files {
				if known.File == one.fresh.File {
					one.fresh.Users = append(known.Users, a.site.worktree)
					shared.Files = slices.Delete(shared.Files, at, at+1)
					break
				}
			}
			shared.Files = append(shared.Files, one.fresh)
		} else if one.fresh != nil {
			record.Files = append(record.Files, one.fresh)
		} else if a.site.shares(one.base) && one.record != nil && len(stillUsing(one.record.Users, a.site.worktree)) > 0 {
			continue // others need it
		} else if a.site.shares(one.base) && one.record != nil {
			one.record.Users = []string{a.site.worktree}
			sharedLeaving = append(sharedLeaving, one.record)
		} else if one.record != nil {
			leaving = append(leaving, one.record)
		}
		if one.changes() || one.drop { // one that is not there may have left its folders
			changes = append(changes, one.change())
			if one.fresh != nil && len(one.fresh.Users) > 1 {
				a.notes = append(a.notes, one.path+" serves other worktrees of this repository too: "+strings.Join(one.fresh.Users[:len(one.fresh.Users)-1], ", ")+".")
			}
		}
	}
	last, problem := a.records(record, shared)
	if problem != nil {
		return problem
	}
	notes := last
	if len(leaving)+len(sharedLeaving) > 0 {
		first, firstShared := *record, *shared
		first.Files = slices.Concat(record.Files, leaving)
		firstShared.Files = slices.Concat(shared.Files, sharedLeaving)
		if notes, problem = a.records(&first, &firstShared); problem != nil {
			return problem
		}
		for _, one := range last {
			for _, before := range notes {
				if before.path == one.path {
					one.existed, one.before = true, before.after
				}
			}
		}
	} else {
		last = nil
	}
	sweep(a.targets)
	if err := commit(notes, changes, last); err != nil {
		return refuseFile("FILE_UNUSABLE", "The files could not be written: "+err.Error()+".", "Everything is as it was.")
	}
	return nil
}

// records are the changes of our own two files; an unchanged one is left.
func (a *attaching) records(record *attachment, shared *sharedFiles) ([]*change, *problem) {
	if a.was != nil {
		before := *a.was
		before.AtMs = record.AtMs
		if bytes.Equal(jsonOf(&before), jsonOf(record)) {
			record.AtMs = a.was.AtMs
		}
	}
	changes, problem := recordChange(attachedFile(a.site.worktree), record, false)
	if problem != nil || a.site.git == "" {
		return changes, problem
	}
	more, problem := recordChange(sharedFile(a.site.git), shared, len(shared.Files) == 0)
	return append(changes, more...), problem
}
