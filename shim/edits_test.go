package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// a folder with files in it.
func folderWith(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// whatIsThere is every file below, and every folder with nothing in it.
func whatIsThere(root string) map[string]string {
	found := map[string]string{}
	filepath.WalkDir(root, func(path string, entry os.DirEntry, _ error) error {
		name, _ := filepath.Rel(root, path)
		if entry.IsDir() {
			if inside, _ := os.ReadDir(path); len(inside) == 0 {
				found[name+"/"] = ""
			}
			return nil
		}
		text, _ := os.ReadFile(path)
		found[name] = string(text)
		return nil
	})
	return found
}

func TestWhatFailsInTheMiddleIsPutBack(t *testing.T) {
	defer func() { renameFile = os.Rename }()
	for failing := 1; failing <= 3; failing++ {
		root := folderWith(t, map[string]string{"a": "a before", "gone": "was here"})
		before := whatIsThere(root)
		count := 0
		renameFile = func(from, to string) error {
			if count++; count == failing {
				return errors.New("the disk says no")
			}
			return os.Rename(from, to)
		}
		err := commit([]*change{
			{path: filepath.Join(root, "a"), existed: true, before: []byte("a before"), modeNow: 0o644, after: []byte("a after"), mode: 0o644},
			{path: filepath.Join(root, "gone"), existed: true, before: []byte("was here"), modeNow: 0o644, drop: true},
			{path: filepath.Join(root, "new", "deep", "b"), after: []byte("b")},
			{path: filepath.Join(root, "new", "c"), after: []byte("c"), mode: 0o600},
		})
		if err == nil || !sameJSON(anyOf(whatIsThere(root)), anyOf(before)) {
			t.Errorf("%d: %v %v", failing, err, whatIsThere(root))
		}
	}
	renameFile = os.Rename
	root := folderWith(t, map[string]string{"file": "x"})
	if err := commit([]*change{{path: filepath.Join(root, "a", "b"), after: []byte("1")}, {path: filepath.Join(root, "file", "c"), after: []byte("2")}}); err == nil {
		t.Error("a file was taken for a folder")
	}
	if left := whatIsThere(root); len(left) != 1 {
		t.Error(left)
	}
}

func anyOf(value any) any { return plainJSON(jsonOf(value)) }

func TestARecordThatCameWithARepositoryReachesNothingOfGits(t *testing.T) {
	config := "[core]\n"
	root := folderWith(t, map[string]string{".git/config": config, ".git/hooks/x": config, "sub/file": "x"})
	os.Symlink(filepath.Join(root, ".git"), filepath.Join(root, "sub", "link"))
	at, err := findSite(root)
	if err != nil || at.git != filepath.Join(root, ".git") {
		t.Fatal(at, err)
	}
	for _, one := range []target{
		{base: inGit, file: "config"}, {base: inGit, file: "hooks/x"}, {base: inWorktree, file: ".git/config"},
		{base: inRepository, file: ".git/config"}, {base: inWorktree, file: "sub/link/config"}, {base: inWorktree, file: "../x"},
		{base: inGit, file: "../sub/file"}, {base: inWorktree, file: "/etc/passwd"},
	} {
		one.site = at
		if problem := one.open(); problem == nil || problem.code != "FILE_OUTSIDE" {
			t.Errorf("%s %s: %v", one.base, one.file, problem)
		}
	}
	fine := target{site: at, base: inGit, file: "info/exclude"}
	if problem := fine.open(); problem != nil {
		t.Error(problem)
	}
}

func TestALinkedWorktreeKnowsItsRepository(t *testing.T) {
	root := folderWith(t, map[string]string{
		"main/.git/HEAD": "", "main/.git/worktrees/side/commondir": "../..\n", "main/inner/file": "",
		"bare.git/HEAD": "", "bare.git/worktrees/side/commondir": "../..\n",
		"side/file": "", "of-bare/file": "", "odd/.git": "what?",
	})
	os.WriteFile(filepath.Join(root, "side", ".git"), []byte("gitdir: "+filepath.Join(root, "main", ".git", "worktrees", "side")+"\n"), 0o644)
	os.WriteFile(filepath.Join(root, "of-bare", ".git"), []byte("gitdir: ../bare.git/worktrees/side\n"), 0o644)
	for folder, want := range map[string]site{
		"main":       {repository: "main", git: "main/.git", top: "main"},
		"main/inner": {repository: "main/inner", git: "main/.git", top: "main"},
		"side":       {repository: "main", git: "main/.git", top: "side"},
		"of-bare":    {repository: "of-bare", git: "bare.git", top: "of-bare"},
		"odd":        {repository: "odd"},
		"":           {repository: ""},
	} {
		at, err := findSite(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		full := func(name string) string {
			if name == "" {
				return ""
			}
			return filepath.Join(root, name)
		}
		if at.worktree != filepath.Join(root, folder) || at.git != full(want.git) || at.top != full(want.top) || at.repository != filepath.Join(root, want.repository) {
			t.Errorf("%q: %+v", folder, at)
		}
	}
}

func TestSecretsOfTokensAreNotShown(t *testing.T) {
	token := "ibx_default.0123456789ab." + strings.Repeat("s", 43)
	for text, want := range map[string]string{
		`{"token": "` + token + `", "x": "` + token + `"}`: `{"token": "ibx_default.0123456789ab.…", "x": "ibx_default.0123456789ab.…"}`,
		"ibx_":                       "ibx_.…",
		"ibx_odd.secret and nothing": "ibx_.… and nothing",
		"none":                       "none",
	} {
		if got := tellable([]byte(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestADifferenceIsToldLineByLine(t *testing.T) {
	for _, one := range []struct{ before, after, want string }{
		{"a\n", "a\n", ""},
		{"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"a", "a\n", "@@ -1 +1 @@\n-a\n\\ no newline at the end\n+a\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n", "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -6,4 +7,3 @@\n 6\n 7\n 8\n-9\n"},
	} {
		if got := diffText(one.before, one.after); got != one.want {
			t.Errorf("%q %q:\n%s", one.before, one.after, got)
		}
	}
	long := strings.Repeat("x\n", 5000)
	if got := diffText("a\n"+long+"b\n", "c\n"+strings.Repeat("y\n", 5000)+"d\n"); strings.Count(got, "\n") != 10005 {
		t.Error(strings.Count(got, "\n"))
	}
}

func TestBytesAreKeptExactly(t *testing.T) {
	for _, bytes := range []string{"", "text", "ü\n<&>", "\xff\x00", "\xed\xa0\x80"} {
		text, err := json.Marshal(exact(bytes))
		var back exact
		if err != nil || json.Unmarshal(text, &back) != nil || string(back) != bytes {
			t.Errorf("%q: %s %q", bytes, text, back)
		}
	}
}

func TestOursIsWhatHasOnlyOurCommands(t *testing.T) {
	rule := &oursRule{Names: []string{"command"}, Like: `(^|/)inbox hook\b`}
	for text, want := range map[string]bool{
		`{"hooks": [{"command": "/x/inbox hook claude"}]}`:                             true,
		`{"hooks": [{"command": "inbox hook claude"}, {"command": "mine"}]}`:           false,
		`{"hooks": [{"command": "mine"}]}`:                                             false,
		`{"hooks": []}`:                                                                false,
		`{"matcher": "inbox hook", "hooks": [{"command": "x", "note": "inbox hook"}]}`: false,
		`"inbox hook"`: false,
	} {
		if rule.knows(plainJSON([]byte(text))) != want {
			t.Error(text)
		}
	}
	if (*oursRule)(nil).knows(nil) || (&oursRule{Names: []string{"a"}, Like: "("}).knows(map[string]any{"a": "("}) {
		t.Error("no rule knew something")
	}
}

func TestAPathIsAPatternThatMeansItself(t *testing.T) {
	for path, want := range map[string]string{".mcp.json": ".mcp.json", "a b/[c]*?": `a\ b/\[c]\*\?`, `a\b`: `a\\b`} {
		if got := ignorePattern(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}
