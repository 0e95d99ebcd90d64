package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		if got := (&answer{body: []byte(text)}).sensible(); got != want {
			t.Errorf("%q: %v", text, got)
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
