package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	theResult  = `{"type":"user","message":{"content":[{"tool_use_id":"toolu_1","type":"tool_result"}]}}`
	theContext = `{"type":"attachment","attachment":{"type":"hook_additional_context","content":["x\nm-1 y \u003cm-2\u003e"]}}`
	theAnswer  = `{"message":{"id":"msg_2","content":[]},"requestId":"req_2","type":"assistant"}`
)

func judged(t testing.TB, text string, budget int64) (*batch, verdict, []string, []string) {
	return judgedOf(t, &batch{}, text, budget)
}

func judgedOf(t testing.TB, one *batch, text string, budget int64) (*batch, verdict, []string, []string) {
	path := filepath.Join(t.TempDir(), "transcript.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	one.receipt, one.messages, one.toolUse = "r", []string{"m-1", "m-2"}, "toolu_1"
	one.transcript, one.path = path, path+".state"
	for range 10_000 {
		before := one.offset
		seen, unseen, is, used := one.judge(budget)
		if used > budget {
			t.Fatalf("read %d bytes of at most %d", used, budget)
		}
		if is != verdictDoubt || one.offset == before {
			return one, is, seen, unseen
		}
	}
	t.Fatal("it never ends")
	return nil, 0, nil, nil
}

func TestATranscriptIsJudgedTheSameWhateverTheSizeOfItsPieces(t *testing.T) {
	filler := `{"type":"progress","data":"` + strings.Repeat("m-1 ", 40_000) + `"}` + "\n"
	for _, one := range []struct {
		name         string
		lines        []string
		is           verdict
		seen, unseen int
	}{
		{"nothing", nil, verdictDoubt, 0, 0},
		{"seen", []string{theResult, theContext, theAnswer}, verdictSettled, 2, 0},
		{"unseen", []string{theResult, theAnswer}, verdictSettled, 0, 2},
		{"no answer yet", []string{theResult, theContext}, verdictDoubt, 0, 0},
		{"an answer that was on its way", []string{theAnswer, theResult, theAnswer}, verdictDoubt, 0, 0},
		{"not JSON lines", []string{"hello", "m-1"}, verdictBlind, 0, 0},
		{"JSON lines of another kind", []string{`{"role":"model"}`}, verdictBlind, 0, 0},
		{"a large line in between", []string{filler + theResult, theContext, filler + theAnswer}, verdictSettled, 2, 0},
	} {
		text := ""
		if len(one.lines) > 0 {
			text = strings.Join(one.lines, "\n") + "\n"
		}
		for _, budget := range []int64{300, 5_000, 1 << 20} {
			if one.name == "a large line in between" && budget == 300 {
				continue
			}
			_, is, seen, unseen := judged(t, text, budget)
			if is != one.is || len(seen) != one.seen || len(unseen) != one.unseen {
				t.Errorf("%s, %d bytes at a time: %v, seen %v, unseen %v", one.name, budget, is, seen, unseen)
			}
		}
	}
}

// Lines as Claude Code 2.1.327 writes them, shortened. In `told` the words reached the model's next request, in `quoted` they
// did not; both were seen by what a scripted model was asked.
func TestWhatTheModelIsToldCountsAndWhatOnlyQuotesDoesNot(t *testing.T) {
	output := `{\"hookSpecificOutput\":{\"additionalContext\":\"id m-1, id m-2\"}}`
	attached := func(rest string) string {
		return `{"isSidechain":false,"attachment":{` + rest + `},"type":"attachment"}`
	}
	denied := `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"id m-1\nid m-2","is_error":true,` +
		`"tool_use_id":"toolu_1"}]},"toolUseResult":"Error: id m-1\nid m-2"}`
	told := map[string]string{
		"context":             attached(`"type":"hook_additional_context","content":["id m-1, id m-2"],"hookEvent":"PostToolUse"`),
		"a reason after":      attached(`"type":"hook_blocking_error","hookEvent":"PostToolUse","blockingError":{"blockingError":"id m-1 id m-2"}`),
		"a late hook's words": attached(`"type":"async_hook_response","response":{"hookSpecificOutput":{"additionalContext":"id m-1 id m-2"}}`),
		"a woken turn's":      attached(`"type":"queued_command","prompt":"<task-notification>id m-1 id m-2</task-notification>"`),
		"a reason to go on":   `{"type":"user","message":{"role":"user","content":"Stop hook feedback:\nid m-1 id m-2"},"isMeta":true}`,
	}
	quoted := map[string]string{
		"output as it came":   attached(`"type":"hook_success","hookEvent":"PostToolUse","content":"","stdout":"` + output + `","exitCode":0`),
		"plain output":        attached(`"type":"hook_success","hookEvent":"PostToolUse","content":"id m-1 id m-2","stdout":"id m-1 id m-2\n"`),
		"a word to a person":  attached(`"type":"hook_system_message","content":"id m-1 id m-2"`),
		"a wrong answer":      attached(`"type":"hook_non_blocking_error","stderr":"Full stdout: id m-1 id m-2","stdout":"","exitCode":1`),
		"a time-out":          attached(`"type":"hook_cancelled","stdout":"` + output + `"`),
		"a fault":             attached(`"type":"hook_error_during_execution","content":"id m-1 id m-2"`),
		"a file":              attached(`"type":"edited_text_file","snippet":"id m-1 id m-2"`),
		"a kind not known":    attached(`"type":"hook_of_tomorrow","content":["id m-1 id m-2"]`),
		"a turn's summary":    `{"type":"system","subtype":"stop_hook_summary","hookErrors":["id m-1 id m-2"]}`,
		"what is in a queue":  `{"type":"queue-operation","operation":"enqueue","content":"<task-notification>id m-1 id m-2"}`,
		"progress":            `{"type":"progress","data":{"type":"hook_progress","output":"id m-1 id m-2"}}`,
		"the last prompt":     `{"type":"last-prompt","lastPrompt":"id m-1 id m-2"}`,
		"a subagent's":        `{"isSidechain":true,"attachment":{"type":"hook_additional_context","content":["id m-1 id m-2"]},"type":"attachment"}`,
		"another tool's end":  strings.Replace(denied, "toolu_1", "toolu_0", 1),
		"the tool's own list": strings.Replace(denied, `,"is_error":true`, "", 1),
	}
	check := func(name, line string, before bool, want int) {
		one, is, seen, unseen := judgedOf(t, &batch{before: before}, strings.Join([]string{theResult, line, theAnswer, ""}, "\n"), 1<<20)
		if is != verdictSettled || len(seen) != want || len(unseen) != 2-want {
			t.Errorf("%s: %v, seen %v, unseen %v, %+v", name, is, seen, unseen, one)
		}
	}
	for name, line := range told {
		check(name, line, false, 2)
	}
	for name, line := range quoted {
		check(name, line, false, 0)
	}
	check("a reason not to", denied, true, 2)
}

func TestAnIDStandsAloneOrNotAtAll(t *testing.T) {
	for text, want := range map[string]bool{
		`m-1`: true, `"m-1"`: true, `\nm-1\n`: true, `\u003em-1\u003c`: true, `(m-1)`: true, `m-1.`: true, `m-1: x`: true,
		`m-10`: false, `am-1`: false, `m-1:backend`: false, `x.m-1`: false, `m-1.2`: false, `xm-1 m-1`: true, ``: false,
	} {
		if got := standsIn([]byte(text), []byte("m-1"), true); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestOnlyTranscriptsOfTheKnownKindAreRead(t *testing.T) {
	for _, one := range []struct {
		host, path string
		want       bool
	}{
		{"claude", "/home/a/.claude/projects/x/s.jsonl", true},
		{"auto", "/home/a/.claude/projects/x/s.jsonl", true},
		{"claude", "", false},
		{"codex", "/home/a/.codex/sessions/s.jsonl", false},
		{"auto", "/home/a/.codex/sessions/s.jsonl", false},
		{"auto", "/home/a/.qwen/tmp/s.jsonl", false},
	} {
		if readable(one.host, one.path) != one.want {
			t.Errorf("%+v", one)
		}
	}
}

func TestAMarkKnowsTheAnswerThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript.jsonl")
	long := strings.Repeat(`{"type":"user","x":"`+strings.Repeat("y", 1000)+`"}`+"\n", 200)
	os.WriteFile(path, []byte(long+theAnswer+"\n"+theResult+"\n"+`{"type":"torn`), 0o600)
	one := &batch{messages: []string{"m-1"}, toolUse: "toolu_1", transcript: path}
	one.mark()
	if !slices.Equal(one.current, []string{"req_2"}) || !one.ready || !one.inside {
		t.Errorf("%+v", one)
	}
}

func FuzzTranscript(f *testing.F) {
	f.Add(strings.Join([]string{theResult, theContext, theAnswer, ""}, "\n"), 100)
	f.Add(theAnswer+"\n"+theResult+"\n\n\n\x00", 7)
	f.Add("m-1\nm-2\n{}{}\n[]\n{\"type\":1}\n", 1000)
	f.Fuzz(func(t *testing.T, text string, budget int) {
		_, is, seen, unseen := judged(t, text, int64(100+abs(budget)%1_000_000))
		if (is == verdictSettled) != (len(seen)+len(unseen) == 2) {
			t.Fatalf("%v with %v and %v", is, seen, unseen)
		}
		if len(seen) > 0 && !strings.Contains(text, seen[0]) {
			t.Fatalf("%v was seen where it is not", seen)
		}
	})
}
