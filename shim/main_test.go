package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// ran is what came of a command line.
func ran(words ...string) (code int, stdout, stderr string, ctx *context) {
	var out, err bytes.Buffer
	ctx = &context{stdin: strings.NewReader(""), stdout: &out, stderr: &err}
	code = dispatch(words, ctx)
	return code, out.String(), err.String(), ctx
}

func TestTheFlagsOfEveryCommandStandAnywhere(t *testing.T) {
	var got []string
	probe := &command{name: "probe", group: "mail", run: func(_ *context, args []string) int { got = args; return 7 }}
	commands = append(commands, probe)
	defer func() { commands = commands[:len(commands)-1] }()
	for _, words := range [][]string{
		{"--json", "--url", "http://u", "--task=t", "probe", "x", "--own"},
		{"probe", "x", "--json", "--own", "--url=http://u", "--task", "t"},
	} {
		code, _, _, ctx := ran(words...)
		if code != 7 || !ctx.json || ctx.url != "http://u" || ctx.task != "t" || strings.Join(got, " ") != "x --own" {
			t.Errorf("%v: %d %+v %v", words, code, ctx, got)
		}
	}
	if ran("probe", "--", "--json"); strings.Join(got, " ") != "-- --json" {
		t.Errorf("%v", got)
	}
	if code, out, _, _ := ran("probe", "--help"); code != exitDone || !strings.HasPrefix(out, "Usage: inbox ") {
		t.Error(out)
	}
}

func TestAWordThatIsNoCommandIsAnsweredWithTheNearest(t *testing.T) {
	code, _, said, _ := ran("hok")
	if code != exitInvalid || said != "inbox: There is no command `hok`. Did you mean `inbox hook`?\n" {
		t.Errorf("%d %q", code, said)
	}
	code, out, said, _ := ran("--json", "zzzzzz")
	var shape struct {
		OK    bool
		Error struct{ Code, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(out), &shape); err != nil || shape.OK || shape.Error.Code != "INVALID_REQUEST" || said != "" {
		t.Errorf("%d %q %q", code, out, said)
	}
	if code, _, _, _ := ran("--url"); code != exitInvalid {
		t.Error("a flag without its value was taken")
	}
	if code, out, _, _ := ran(); code != exitDone || !strings.Contains(out, "hook") {
		t.Error(out)
	}
}

func TestEveryCommandCanBeExplained(t *testing.T) {
	names := map[string]bool{}
	for _, one := range commands {
		if names[one.name] || one.summary == "" || !strings.HasPrefix(one.usage, one.name) || one.run == nil ||
			!strings.Contains(strings.Join(groups, " "), one.group) {
			t.Errorf("%s: %+v", one.name, one)
		}
		names[one.name] = true
	}
}
