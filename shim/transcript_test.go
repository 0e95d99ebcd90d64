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
	path := filepath.Join(t.TempDir(), "transcript.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	one := &batch{receipt: "r", messages: []string{"m-1", "m-2"}, transcript: path, toolUse: "toolu_1", path: path + ".state"}
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
