package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type faultyReader struct{}

func (faultyReader) Read([]byte) (int, error) { panic("a fault of ours") }

func TestAPanicIsALineInTheLogAndNotTheAgentsProblem(t *testing.T) {
	log := filepath.Join(t.TempDir(), "hook.log")
	var out, err bytes.Buffer
	ctx := &context{stdin: faultyReader{}, stdout: &out, stderr: &err}
	if code := dispatch([]string{"hook", "claude", "--log", log}, ctx); code != 0 {
		t.Error(code)
	}
	text, _ := os.ReadFile(log)
	if !strings.Contains(string(text), " claude - a bug: a fault of ours ") || out.Len()+err.Len() > 0 {
		t.Errorf("%q %q %q", text, out.String(), err.String())
	}
}

func TestTheHooksFlagsAreTakenOrLeft(t *testing.T) {
	for line, want := range map[string]hook{
		"":                                    {host: "auto", deadline: hookDeadline},
		"codex --remind":                      {host: "codex", deadline: hookDeadline, mode: "remind"},
		"--linger=2500 qwen --wake":           {host: "qwen", deadline: hookDeadline, linger: 2500e6, mode: "wake"},
		"--linger -1 --deadline-ms x ../x":    {host: "auto", deadline: hookDeadline},
		"--linger 99999999999 --deadline-ms":  {host: "auto", deadline: hookDeadline},
		"claude --deadline-ms 20 --log a.log": {host: "claude", deadline: 20e6, log: "a.log"},
	} {
		got := hook{host: "auto", deadline: hookDeadline}
		got.flags(strings.Fields(line))
		if got.host != want.host || got.deadline != want.deadline || got.linger != want.linger || got.mode != want.mode || got.log != want.log {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

func TestAnAnswerThatIsHalfAnObjectIsNotPrinted(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `{"a":"}"}` + "\n": true, `plain text`: true, `{`: false, `{"a":"}`: false, `{}{}`: false, `{}]`: false,
	} {
		if (&answer{body: []byte(text)}).sensible() {
			t.Errorf("%q: from whoever said it", text)
		}
		if got := (&answer{task: "backend", body: []byte(text)}).sensible(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestMailIsLateByTheClockThatSaysMore(t *testing.T) {
	now := time.Now()
	steady := func(ago time.Duration) time.Time { return now.Add(-ago) }
	wall := func(ago time.Duration) time.Time { return now.Add(-ago).Round(0) } // without the steady clock's reading
	if got := elapsed(steady(2*time.Second), now); got != 2*time.Second {
		t.Error(got)
	}
	if got := elapsed(wall(time.Hour), now); got != time.Hour { // the machine slept
		t.Error(got)
	}
	for _, one := range []struct {
		within string
		linger time.Duration
		ago    time.Duration
		late   bool
	}{
		{"", 0, 9 * time.Second, false},
		{"", 0, 11 * time.Second, true},
		{"", time.Minute, 65 * time.Second, false},
		{"2250", 0, 2 * time.Second, false},
		{"2250", 0, 3 * time.Second, true},
		{"72250", time.Minute, 70 * time.Second, false},
		{"72250", 2 * time.Minute, 73 * time.Second, true},
	} {
		run := &hook{linger: one.linger, asked: steady(one.ago)}
		if got := run.late(&answer{within: one.within}); got != one.late {
			t.Errorf("%+v: %v", one, got)
		}
	}
}

func FuzzHookInput(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"Stop","session_id":"x","last_assistant_message":"\ud83d"}`))
	f.Add([]byte(`{"tool_response":[[[{"a":"\\\""}]]],"cwd":"/"}`))
	f.Fuzz(func(t *testing.T, given []byte) {
		fields, err := scanObject(io.MultiReader(bytes.NewReader(given)), hookFields, make([]byte, 64))
		if err != nil {
			return
		}
		body := (&hook{}).request(fields, &settings{}, &verdicts{})
		if _, err := scanObject(bytes.NewReader(body), hookFields, make([]byte, 64)); err != nil {
			t.Fatalf("%q became %q", given, body)
		}
	})
}
