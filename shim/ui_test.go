package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func typed(name string, args ...string) (*context, []string) {
	return &context{command: find(name), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, args
}

func TestFlagsMayStandAnywhereAndWordsKeepTheirOrder(t *testing.T) {
	ctx, args := typed("send", "backend", "--subject", "s", "two words", "--await", "--artifact=a", "--artifact", "b", "--", "--kind")
	read, problem := ctx.parse(sendOptions, args, -1)
	if problem != nil {
		t.Fatal(problem)
	}
	if got := strings.Join(read.words, "|"); got != "backend|two words|--kind" {
		t.Error(got)
	}
	if read.get("--subject") != "s" || !read.has("--await") || strings.Join(read.all("--artifact"), ",") != "a,b" {
		t.Error(read.given)
	}
}

func TestTextThatOnlyBeginsWithADashIsAWord(t *testing.T) {
	for text, flag := range map[string]bool{
		"--subject": true, "-x": true, "--body=a b": true, "--no-such": true,
		"-": false, "--": false, "---": false, "- item": false, "-1": false, "-5 degrees": false,
		"--- a/file": false, "--urgent: do this": false, "--x.y": false, "": false, "—": false,
	} {
		if looksLikeFlag(text) != flag {
			t.Errorf("%q: %v", text, !flag)
		}
	}
}

func TestMistakesNameTheFlag(t *testing.T) {
	for line, words := range map[string]string{
		"--subjct x":              "Did you mean --subject?",
		"--subject":               "--subject needs a value.",
		"--subject --await":       "--subject needs a value.",
		"--await=1":               "--await takes no value.",
		"--kind x":                "It is one of message, task,",
		"--subject a --subject b": "--subject is given twice.",
	} {
		ctx, args := typed("send", strings.Fields(line)...)
		_, problem := ctx.parse(sendOptions, args, -1)
		if problem == nil || problem.exit != exitInvalid || !strings.Contains(problem.Error(), words) {
			t.Errorf("%s: %v", line, problem)
		}
	}
}

func TestTimesHaveUnits(t *testing.T) {
	for text, wanted := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "90s": 90 * time.Second, "10m": 10 * time.Minute, "2h": 2 * time.Hour,
		"1d": 24 * time.Hour, "0.5h": 30 * time.Minute, "7": 7 * time.Second,
	} {
		if got, problem := readSpan("--ttl", text, "s"); problem != nil || got != wanted {
			t.Errorf("%s: %v %v", text, got, problem)
		}
	}
	for _, text := range []string{"", "m", "10x", "-5s", "1e3s", "ten", "10 m", "1.2.3s", "99999d", "0x10s", "infs", "10mm"} {
		if got, problem := readSpan("--ttl", text, "s"); problem == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, problem := readSpan("--ttl", "10", ""); problem == nil {
		t.Error("a bare number passed where a unit is needed")
	}
}

func TestAnAnswerKeepsItsFieldsInOrderAndSaysOkOnce(t *testing.T) {
	out := &bytes.Buffer{}
	ctx := &context{stdout: out}
	ctx.sayJSON("task remove", []byte(`{"ok": true, "task": "a<b>", "dropped": 10000000000000001, "x": {"y": [1, null]}}`))
	if got := out.String(); got != `{"ok":true,"command":"task remove","task":"a<b>","dropped":10000000000000001,"x":{"y": [1, null]}}`+"\n" {
		t.Error(got)
	}
	out.Reset()
	ctx.sayJSON("x", []byte("no object"))
	if !json.Valid(out.Bytes()) {
		t.Error(out)
	}
}

func TestTablesAreAligned(t *testing.T) {
	out := &bytes.Buffer{}
	ctx := &context{stdout: out}
	ctx.table([]string{"NAME", "N", "ABOUT"}, [][]cell{
		{{text: "漢字"}, {text: "7", right: true}, {text: "x\ny\x1b[31m"}},
		{{text: "backend"}, {text: "123", right: true}, {text: ""}},
	})
	wanted := "NAME       N  ABOUT\n漢字       7  x y[31m\nbackend  123\n"
	if out.String() != wanted {
		t.Errorf("\n%s\n%s", out, wanted)
	}
}

func TestATextIsCutByItsWidth(t *testing.T) {
	for _, one := range []struct {
		text   string
		room   int
		wanted string
	}{{"short", 5, "short"}, {"longer", 5, "long…"}, {"漢字漢字", 5, "漢字…"}, {"a b c", 4, "a b…"}, {"é́x", 2, "é́x"}} {
		if got := cutTo(one.text, one.room); got != one.wanted || columns(got) > one.room {
			t.Errorf("%q in %d: %q", one.text, one.room, got)
		}
	}
}

func TestAgesAreRough(t *testing.T) {
	for passed, wanted := range map[time.Duration]string{
		-time.Hour: "now", 0: "now", 5 * time.Second: "5s", 90 * time.Second: "1m", 3 * time.Hour: "3h", 30 * time.Hour: "30h", 72 * time.Hour: "3d",
	} {
		if got := age(time.Now().Add(-passed).UnixMilli()); got != wanted {
			t.Errorf("%v: %s", passed, got)
		}
	}
}

func TestATokensSecretIsNeverPartOfItsName(t *testing.T) {
	for token, wanted := range map[string]string{
		"ibx_default.0123456789ab.s3cr3t": "ibx_default.0123456789ab",
		"ibx_default.0123456789ab":        "",
		"ibx_default.s3cr3t":              "",
		"s3cr3t":                          "",
		"a.b.c":                           "",
		"":                                "",
	} {
		if got := tokenName(token); got != wanted {
			t.Errorf("%s: %q", token, got)
		}
		if strings.Contains(tokenShown(token), "s3cr3t") {
			t.Error(tokenShown(token))
		}
	}
}

func TestNewIdsAreOfTheirGrammarAndSortedByTime(t *testing.T) {
	before := ""
	for range 3 {
		id := mintID()
		if !isID(id) || len(id) != 36 || id[14] != '7' || id[:13] < before {
			t.Error(id)
		}
		before = id[:13]
	}
}

func TestASessionsNameKeepsToItsGrammar(t *testing.T) {
	for given, wanted := range map[string]string{
		"cli-me@host": "cli-me@host", "DOMAIN\\me": "DOMAIN-me", "": "s", "-x": "s-x", "übung": "s-bung", strings.Repeat("x", 300): strings.Repeat("x", 128),
	} {
		if got := sessionName(given); got != wanted {
			t.Errorf("%q: %q", given, got)
		}
	}
}

func TestTheStatusLineNamesTheMostUrgentFirst(t *testing.T) {
	for wanted, tasks := range map[string][]taskRow{
		"✉ 0":                                 {},
		"✉ 1 urgent of 3 · waiting: frontend": {{Task: "a", Pending: 3, Urgent: 1}, {Task: "frontend", State: "waiting"}},
		"✉ 2 · 2 for you":                     {{Task: "user", Pending: 2}},
		"✉ 0 · waiting: a, b, c +1":           {{Task: "a", State: "waiting"}, {Task: "b", State: "waiting"}, {Task: "c", State: "waiting"}, {Task: "d", State: "waiting"}},
	} {
		if got := statusOfTasks(tasks); got != wanted {
			t.Errorf("%q, not %q", got, wanted)
		}
	}
}

func TestACodeMayComeInALink(t *testing.T) {
	for given, wanted := range map[string][2]string{
		"abc-123":                            {"abc-123", ""},
		"http://h:1/login?code=abc":          {"abc", "http://h:1"},
		"https://h/#code=abc":                {"abc", "https://h"},
		"http://h:1/login":                   {"", "http://h:1"},
		"ftp://h/?code=abc":                  {"ftp://h/?code=abc", ""},
		"http://h:1/login?code=abc&next=%2F": {"abc", "http://h:1"},
	} {
		if code, address := codeOf(given); code != wanted[0] || address != wanted[1] {
			t.Errorf("%s: %q %q", given, code, address)
		}
	}
}
