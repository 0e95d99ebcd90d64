package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHooksAreFoundInEveryHostsForm(t *testing.T) {
	for name, one := range map[string]struct {
		host, text, wanted string
	}{
		"groups":  {"claude", `{"hooks":{"Stop":[{"hooks":[{"command":"inbox hook claude"}]}],"PostToolUse":[{"matcher":"*","hooks":[{"command":"lint"},{"command":"inbox hook claude"}]}]}}`, "claude inbox hook claude PostToolUse,Stop"},
		"flat":    {"copilot", `{"version":1,"hooks":{"PostToolUse":[{"type":"command","bash":"inbox hook copilot"}]}}`, "copilot inbox hook copilot PostToolUse"},
		"quoted":  {"claude", `{"hooks":{"Stop":[{"hooks":[{"command":"\"/a b/inbox\" hook claude"}]}]}}`, `claude "/a b/inbox" hook claude Stop`},
		"args":    {"claude", `{"hooks":{"Stop":[{"hooks":[{"command":"inbox","args":["hook","claude"]}]}]}}`, "claude inbox hook claude Stop"},
		"nobody":  {"claude", `{"hooks":{"Stop":[{"hooks":[{"command":"inbox hook"}]}]}}`, " inbox hook Stop"},
		"others":  {"claude", `{"hooks":{"Stop":[{"hooks":[{"command":"inboxes hooked"},{"command":"echo"}]}]},"x":"inbox hook"}`, ""},
		"none":    {"claude", `{}`, ""},
		"strange": {"claude", `{"hooks":{"Stop":"inbox hook claude","A":[1,null,[{"command":5}]]}}`, ""},
	} {
		found, _, ok := hooksIn(one.host, []byte(one.text))
		var said []string
		for _, hook := range found {
			said = append(said, hook.speaks+" "+hook.shown()+" "+strings.Join(hook.events, ","))
		}
		if got := strings.Join(said, ";"); !ok || got != one.wanted {
			t.Errorf("%s: %q, not %q", name, got, one.wanted)
		}
	}
	if _, _, ok := hooksIn("claude", []byte(`{"hooks":`)); ok {
		t.Error("half a file passed")
	}
}

func TestOnlyAPlainHookOfAProjectIsRun(t *testing.T) {
	own, _ := os.Executable()
	for command, plain := range map[string]bool{
		"inbox hook claude":                      true,
		"inbox hook claude --remind":             true,
		"INBOX_TASK=backend inbox hook claude":   true,
		own + " hook claude":                     true,
		"./inbox hook claude":                    false,
		"/tmp/elsewhere/inbox hook claude":       false,
		"inbox hook claude; rm x":                false,
		"inbox hook claude && rm x":              false,
		"inbox hook $(rm x)":                     false,
		"inbox hook `rm x`":                      false,
		"inbox hook claude > x":                  false,
		"inbox hook\nrm x":                       false,
		"PATH=. inbox hook claude":               false,
		"INBOX_URL=http://x inbox hook claude":   false,
		"INBOX_TASK=$(rm x) inbox hook claude":   false,
		"sh -c inbox hook claude":                false,
		"inbox hooked":                           false,
		"rm x inbox hook":                        false,
		"$CLAUDE_PROJECT_DIR/inbox hook claude":  false,
		"'inbox' hook claude":                    false,
		"inbox hook claude --log /tmp/hooks.log": false,
		"inbox hook claude --url http://x":       false,
		"inbox hook claude --linger 5000":        true,
		"inbox hook claude\trm":                  false,
	} {
		if isPlainHook(&installed{command: command}) != plain {
			t.Errorf("%q: %v", command, !plain)
		}
	}
}

func TestTheFoldersUpToTheRepositoryAreLookedAt(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "repo", "a", "b")
	os.MkdirAll(filepath.Join(root, "repo", ".git"), 0o755)
	os.MkdirAll(deep, 0o755)
	if got := foldersUp(deep, root); len(got) != 3 || got[2] != filepath.Join(root, "repo") {
		t.Error(got)
	}
	alone := filepath.Join(root, "alone", "c")
	if got := foldersUp(alone, root); len(got) != 1 || got[0] != alone {
		t.Error(got)
	}
	if got := foldersUp(root, root); got != nil {
		t.Error(got)
	}
	if got := foldersUp("/", "/home/x"); len(got) != 1 {
		t.Error(got)
	}
}

func TestEveryHostsInputSaysWhichHostItIs(t *testing.T) {
	for host, names := range map[string][]string{
		"claude": {"transcript_path", "permission_mode", "tool_use_id"}, "codex": {"turn_id"}, "gemini": {"timestamp", "transcript_path"},
		"qwen": {"timestamp", "transcript_path"}, "copilot": {"timestamp"},
	} {
		var input map[string]any
		if err := json.Unmarshal(hookInput(host, "doctor-1", "/here"), &input); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(names, "session_id", "cwd", "hook_event_name", "tool_name") {
			if input[name] == nil {
				t.Errorf("%s has no %s", host, name)
			}
		}
	}
}
