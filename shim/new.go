// new: two tasks that know each other, each in a git worktree of its own, in one go.
//
// Every name is checked before anything is made, and what was made goes again if a later step fails or somebody stops it: no
// half of a set-up is left. The new worktrees stand beside the repository, <repository>-<task>, each on a branch of its task's name.
package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

var newOptions = []option{
	{name: "--host", value: "HOSTS", text: "as with attach", many: true},
	{name: "--dir", value: "FOLDER", text: "the repository (this folder's)"},
	{name: "--wake", text: "as with attach"},
	{name: "--remind", text: "as with attach"},
}

func init() {
	register(&command{
		name: "new", group: "set-up", summary: "Make linked tasks, each in a git worktree of its own.",
		usage: "new A B… [--host HOSTS] [--dir FOLDER]",
		help: helpText("For each task: a branch of its name, a worktree ../REPOSITORY-TASK on it, attached to the task with the others as peers.\n"+
			"Begins at the commit that is checked out; changes that are not committed stay where they are.", newOptions,
			`inbox new backend frontend`,
			`inbox new backend frontend tests --host claude,codex`),
		run: runNew,
	})
}

// newPlace is one worktree to be made.
type newPlace struct {
	Task   string   `json:"task"`
	Dir    string   `json:"dir"`
	Branch string   `json:"branch"`
	Hosts  []string `json:"hosts"`

	made bool
	work *attaching
}

func runNew(ctx *context, args []string) int {
	read, refusal := ctx.parse(newOptions, args, -1)
	if refusal != nil {
		return ctx.fail(refusal)
	}
	folder := read.get("--dir")
	if folder == "" {
		folder = "."
	}
	places, refusal := planWorktrees(folder, read.words)
	if refusal != nil {
		return ctx.fail(refusal)
	}
	release, refusal := lockAttach()
	if refusal != nil {
		return ctx.fail(refusal)
	}
	defer release()
	// A broker that is not there is known before a branch is.
	ctx.found = ctx.accountSettings("")
	broker, refusal := ctx.connect()
	if refusal == nil {
		_, refusal = broker.ask("GET", "/v1/whoami", nil)
	}
	if refusal != nil {
		return ctx.fail(refusal)
	}
	if refusal := makeWorktrees(ctx, broker, folder, places, read); refusal != nil {
		return ctx.fail(refusal)
	}
	if ctx.json {
		ctx.sayJSON("new", jsonOf(map[string]any{"worktrees": places}))
		return exitDone
	}
	for _, one := range places {
		ctx.say("made %s on the branch %s, attached to %s (%s)", one.Dir, one.Branch, ctx.paint()(bold, one.Task), strings.Join(one.Hosts, ", "))
	}
	ctx.say("\nStart an agent in each, in a terminal of its own:")
	for _, one := range places {
		ctx.say("  cd %s && %s", shellWord(one.Dir), one.Hosts[0])
	}
	var notices []string
	for _, one := range places[0].work.plans {
		if one.Notice != "" && !contains(notices, one.Notice) {
			notices = append(notices, one.Notice)
			ctx.say("%s", one.Notice)
		}
	}
	ctx.say("They know each other as peers; write to one with: inbox send %s \"…\"", places[0].Task)
	return exitDone
}

// shellWord is a word as a shell takes it.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, plainLetters) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// git runs a git command in a folder. A Ctrl-C is ours alone: git, stopped in the middle, leaves its locks behind.
func git(folder string, words ...string) (string, error) {
	command := exec.Command("git", append([]string{"-C", folder}, words...)...)
	command.Env = append(os.Environ(), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0")
	inBackground(command)
	said, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		lines := strings.Split(strings.TrimSpace(string(failed.Stderr)), "\n")
		err = errors.New(strings.TrimPrefix(lines[len(lines)-1], "fatal: "))
	}
	return strings.TrimSpace(string(said)), err
}

// planWorktrees checks every name; nothing is made yet.
func planWorktrees(folder string, tasks []string) ([]*newPlace, *problem) {
	refuse := func(code, message, hint string) *problem {
		return &problem{code: code, message: message, hint: hint, exit: exitInvalid}
	}
	if len(tasks) < 2 {
		return nil, refuse("INVALID_REQUEST", "Two tasks or more are made.", "inbox new backend frontend; one alone is attached with `inbox attach`.")
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil, refuse("GIT_MISSING", "git is not installed here, and worktrees are git's.", "Make two folders yourself, and `inbox attach` each.")
	}
	if _, err := git(folder, "rev-parse", "--is-inside-work-tree"); err != nil {
		return nil, refuse("NO_REPOSITORY", folder+" is in no git repository.", "Go to one, or name it with --dir FOLDER.")
	}
	if _, err := git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return nil, refuse("NO_COMMIT", "The repository has no commit yet, so there is nothing to check out.", "Commit something first.")
	}
	at, err := findSite(folder)
	if err != nil || at.git == "" {
		return nil, refuse("NO_REPOSITORY", folder+" is in no git repository that can be understood.", "Go to one, or name it with --dir FOLDER.")
	}
	main := at.top
	if filepath.Base(at.git) == ".git" {
		main = filepath.Dir(at.git)
	}
	var places []*newPlace
	for number, task := range tasks {
		if problem := checkTask(task); problem != nil {
			return nil, problem
		}
		if contains(tasks[:number], task) {
			return nil, refuse("INVALID_REQUEST", "`"+task+"` is named twice.", "Give each task a name of its own.")
		}
		if _, err := git(folder, "check-ref-format", "--branch", task); err != nil {
			return nil, refuse("INVALID_REQUEST", "`"+task+"` cannot be a branch's name.", "Give the task another name.")
		}
		if _, err := git(folder, "rev-parse", "--verify", "--quiet", "refs/heads/"+task); err == nil {
			return nil, &problem{code: "BRANCH_EXISTS", message: "There is a branch " + task + " already.",
				hint: "Give the task another name, or attach a worktree of that branch: inbox attach --task " + task + ".", exit: exitConflict}
		}
		dir := filepath.Join(filepath.Dir(main), filepath.Base(main)+"-"+task)
		if _, err := os.Lstat(dir); err == nil {
			return nil, &problem{code: "FOLDER_EXISTS", message: dir + " is there already.",
				hint: "Take it away, give the task another name, or attach it: inbox attach --task " + task + " --dir " + shellWord(dir) + ".", exit: exitConflict}
		}
		places = append(places, &newPlace{Task: task, Dir: dir, Branch: task})
	}
	return places, nil
}

// makeWorktrees makes and attaches them all, or none.
func makeWorktrees(ctx *context, broker *broker, folder string, places []*newPlace, read *arguments) (refusal *problem) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(asked)
	defer func() {
		select {
		case <-asked:
			refusal = &problem{code: "INTERRUPTED", message: "It was stopped before it was done.", hint: "Nothing was left behind.", exit: exitBroken}
		default:
		}
		if refusal != nil {
			unmake(folder, places)
		}
	}()
	var tasks []string
	for _, one := range places {
		tasks = append(tasks, one.Task)
	}
	for number, one := range places {
		if len(asked) > 0 {
			return nil // said above
		}
		if err := os.Mkdir(one.Dir, 0o777); err != nil {
			return refuseFile("FOLDER_UNFIT", one.Dir+" cannot be made: "+reason(err)+".", "Nothing was left behind.")
		}
		one.made = true // from here on all that is in it is ours
		if _, err := git(folder, "worktree", "add", "--quiet", "-b", one.Branch, one.Dir); err != nil {
			return &problem{code: "GIT_FAILED", message: "git could not make " + one.Dir + ": " + err.Error() + ".", hint: "Nothing was left behind.", exit: exitBroken}
		}
		at, err := findSite(one.Dir)
		if err != nil {
			return refuseFile("FOLDER_UNKNOWN", one.Dir+" cannot be used: "+reason(err)+".", "")
		}
		one.Dir = at.worktree
		work := &attaching{ctx: ctx, broker: broker, site: at, task: one.Task, hosts: splitHosts(read.all("--host")),
			wake: read.has("--wake"), remind: read.has("--remind")}
		work.peers = slices.DeleteFunc(slices.Clone(tasks[:number]), func(other string) bool { return other == one.Task })
		if refusal := work.prepare(); refusal != nil {
			return refusal
		}
		if _, refusal := work.carryOut(); refusal != nil {
			return refusal
		}
		one.work, one.Hosts = work, work.hosts
	}
	return nil
}

// unmake takes back what was made so far.
func unmake(folder string, places []*newPlace) {
	for _, one := range slices.Backward(places) {
		if !one.made {
			continue
		}
		if at, err := findSite(one.Dir); err == nil {
			back := &attaching{site: at, ctx: &context{}}
			if back.prepareDetach() == nil && back.writeDetached() == nil {
				back.giveUp()
			}
		}
		if _, err := git(folder, "worktree", "remove", "--force", one.Dir); err != nil {
			os.RemoveAll(one.Dir) // git did not get far
			git(folder, "worktree", "prune")
		}
		git(folder, "branch", "--delete", "--force", "--", one.Branch)
	}
}
