package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// account gives a test an account of its own, with nothing in it.
func account(t *testing.T) (home, worktree string) {
	t.Helper()
	home = t.TempDir()
	for _, name := range []string{"INBOX_URL", "INBOX_TOKEN", "INBOX_TASK", "INBOX_CA_FILE", "INBOXD_DATA_DIR",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"HOME", "USERPROFILE", "AppData", "LocalAppData"} {
		t.Setenv(name, home)
	}
	worktree = filepath.Join(t.TempDir(), "project")
	if err := os.MkdirAll(filepath.Join(worktree, "deep", "down"), 0o700); err != nil {
		t.Fatal(err)
	}
	return home, worktree
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachPlaceBeatsTheOnesAfterIt(t *testing.T) {
	_, worktree := account(t)
	here := filepath.Join(worktree, "deep", "down")
	check := func(place, url, token, task string) {
		t.Helper()
		got := readSettings("", "", here)
		if got.url.value != url || got.token.value != token || got.task.value != task {
			t.Errorf("%s: %q %q %q", place, got.url.value, got.token.value, got.task.value)
		}
		if url != "" && got.url.from != place {
			t.Errorf("the address is from %s, not from %s", got.url.from, place)
		}
	}
	check("nowhere", "", "", "")
	put(t, runtimeFile(), `{"url": "http://127.0.0.1:1", "token": "local", "pid": 7}`)
	check(runtimeFile(), "http://127.0.0.1:1", "local", "")
	put(t, userConfigFile(), `{"url": "http://user/", "token": "mine", "task": "a"}`)
	check(userConfigFile(), "http://user", "mine", "a")
	file := filepath.Join(worktree, ".inbox", "config.json")
	put(t, file, `{"url": "http://tree", "token": "tree", "task": "b"}`)
	check(file, "http://tree", "tree", "b")
	t.Setenv("INBOX_URL", "http://env")
	t.Setenv("INBOX_TOKEN", "env")
	t.Setenv("INBOX_TASK", "c")
	check("INBOX_URL", "http://env", "env", "c")
	if got := readSettings("http://flag", "d", here); got.url.value != "http://flag" || got.url.from != "--url" ||
		got.task.value != "d" || got.task.from != "--task" || got.token.value != "env" {
		t.Errorf("%+v", got)
	}
}

func TestATokenOnlyTravelsWhereItIsTrusted(t *testing.T) {
	for _, one := range []struct {
		name            string
		env, envToken   string
		tree, user, run string
		token           string
		withheld        bool
	}{
		{name: "a worktree's address gets no token of the account", tree: `{"url":"http://evil"}`,
			user: `{"url":"http://good","token":"mine"}`, withheld: true},
		{name: "nor one that stands alone", tree: `{"url":"http://evil"}`, user: `{"token":"mine"}`, withheld: true},
		{name: "nor the environment's", tree: `{"url":"http://evil"}`, envToken: "env", withheld: true},
		{name: "a worktree may repeat a known address", tree: `{"url":"http://good/"}`,
			user: `{"url":"http://good","token":"mine"}`, token: "mine"},
		{name: "and then the environment's token goes there", tree: `{"url":"http://good"}`, user: `{"url":"http://good"}`,
			envToken: "env", token: "env"},
		{name: "a worktree's own pair", tree: `{"url":"http://x","token":"tree"}`, user: `{"token":"mine"}`, token: "tree"},
		{name: "a worktree's token for the account's address", tree: `{"token":"tree"}`, user: `{"url":"http://good"}`, token: "tree"},
		{name: "the environment's token for the account's address", envToken: "env", user: `{"url":"http://good"}`, token: "env"},
		{name: "the local broker by another name", env: "http://localhost:8420",
			run: `{"url":"http://127.0.0.1:8420","token":"local"}`, token: "local"},
		{name: "another broker gets no token of this one", env: "http://other",
			run: `{"url":"http://127.0.0.1:8420","token":"local"}`, withheld: true},
		{name: "an address that only starts alike", env: "http://localhost.evil:8420",
			run: `{"url":"http://127.0.0.1:8420","token":"local"}`, withheld: true},
		{name: "the account's own token, wherever the caller says", env: "http://other", user: `{"token":"mine"}`, token: "mine"},
	} {
		t.Run(one.name, func(t *testing.T) {
			_, worktree := account(t)
			t.Setenv("INBOX_URL", one.env)
			t.Setenv("INBOX_TOKEN", one.envToken)
			for path, text := range map[string]string{
				filepath.Join(worktree, ".inbox", "config.json"): one.tree, userConfigFile(): one.user, runtimeFile(): one.run,
			} {
				if text != "" {
					put(t, path, text)
				}
			}
			got := readSettings("", "", worktree)
			if got.token.value != one.token || (got.withheld != "") != one.withheld {
				t.Errorf("token %q, %q", got.token.value, got.withheld)
			}
			if _, problem := newClient(got); (problem != nil) != one.withheld {
				t.Errorf("%v", problem)
			}
		})
	}
}

func TestABrokenFileIsNamedAndTheNearestFolderCounts(t *testing.T) {
	_, worktree := account(t)
	put(t, filepath.Join(worktree, ".inbox", "config.json"), `{"task":"outer"}`)
	put(t, filepath.Join(worktree, "deep", ".inbox", "config.json"), `{"task":`)
	put(t, userConfigFile(), `{"url":"http://user"}`)
	got := readSettings("", "", filepath.Join(worktree, "deep", "down"))
	if len(got.broken) != 1 || got.task.value != "" || got.url.value != "http://user" {
		t.Errorf("%+v", got)
	}
	if _, problem := newClient(got); problem == nil || problem.exit != exitInvalid {
		t.Errorf("%v", problem)
	}
	put(t, filepath.Join(worktree, "file"), "")
	if got := readSettings("", "", filepath.Join(worktree, "file")); got.task.value != "outer" {
		t.Errorf("%+v", got)
	}
}

func TestTheLocalBrokerIsLookedForWhereItWrites(t *testing.T) {
	home, _ := account(t)
	want := map[string]string{
		"linux":   filepath.Join(home, ".local", "share", "inboxd", "runtime.json"),
		"darwin":  filepath.Join(home, "Library", "Application Support", "inboxd", "runtime.json"),
		"windows": filepath.Join(home, "inboxd", "runtime.json"),
	}[runtime.GOOS]
	if got := runtimeFile(); want != "" && got != want {
		t.Errorf("%s, not %s", got, want)
	}
	t.Setenv("INBOXD_DATA_DIR", filepath.Join(home, "elsewhere"))
	if got := runtimeFile(); got != filepath.Join(home, "elsewhere", "runtime.json") {
		t.Error(got)
	}
}

func TestAWorktreesAuthorityVouchesForAWorktreesBrokerOnly(t *testing.T) {
	_, worktree := account(t)
	file := filepath.Join(worktree, ".inbox", "config.json")
	put(t, file, `{"url": "https://tree", "ca_file": "/tree.pem"}`)
	if got := readSettings("", "", worktree); got.caFile.value != "/tree.pem" {
		t.Errorf("%+v", got.caFile)
	}
	for _, mine := range []string{"https://tree", "https://mine"} {
		if got := readSettings(mine, "", worktree); got.caFile.value != "" {
			t.Errorf("%s: %+v", mine, got.caFile)
		}
	}
	put(t, file, `{"ca_file": "/tree.pem"}`)
	put(t, userConfigFile(), `{"url": "https://mine", "ca_file": "/mine.pem"}`)
	if got := readSettings("", "", worktree); got.url.value != "https://mine" || got.caFile.value != "/mine.pem" {
		t.Errorf("%+v %+v", got.url, got.caFile)
	}
	t.Setenv("INBOX_CA_FILE", "/env.pem")
	if got := readSettings("", "", worktree); got.caFile.value != "/env.pem" {
		t.Errorf("%+v", got.caFile)
	}
}
