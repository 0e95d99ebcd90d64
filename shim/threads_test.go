package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestEachArtifactHasWhatComesBehindIt(t *testing.T) {
	for line, wanted := range map[string]string{
		"--artifact a": `[{"path":"a"}]`,
		"--artifact a --artifact-kind log --artifact b":                                             `[{"path":"a","kind":"log"},{"path":"b"}]`,
		"--artifact a --artifact b --artifact-kind log":                                             `[{"path":"a"},{"path":"b","kind":"log"}]`,
		`--artifact=a --artifact-metadata-json {"n":1} --artifact-kind=x --artifact b`:              `[{"path":"a","kind":"x","metadata":{"n":1}},{"path":"b"}]`,
		`--artifact a --summary s --artifact-kind log --artifact b --artifact-metadata-json {}`:     `[{"path":"a","kind":"log"},{"path":"b","metadata":{}}]`,
		`--artifact a --artifact a --artifact-kind x --artifact c --artifact-kind x --body no-more`: `[{"path":"a"},{"path":"a","kind":"x"},{"path":"c","kind":"x"}]`,
		"--summary s": `null`,
	} {
		for _, name := range []string{"send", "update"} {
			ctx, args := typed(name, strings.Fields(line)...)
			options := map[string][]option{"send": sendOptions, "update": updateOptions}[name]
			read, problem := ctx.parse(options, args, 0)
			if problem != nil {
				t.Fatal(problem)
			}
			made, problem := readArtifacts(read)
			if problem != nil || string(jsonOf(made)) != wanted {
				t.Errorf("%s: %s %v", line, jsonOf(made), problem)
			}
		}
	}
}

func TestADescriptionWithoutItsArtifactIsAMistake(t *testing.T) {
	for line, words := range map[string]string{
		"--artifact-kind log":                                                  "There is no artifact to describe.",
		"--artifact-kind log --artifact a":                                     "There is no artifact to describe.",
		"--artifact-metadata-json {} --artifact a":                             "There is no artifact to describe.",
		"--artifact a --artifact-kind x --artifact-kind y":                     "--artifact-kind is given twice for a.",
		"--artifact a --artifact-metadata-json {} --artifact-metadata-json {}": "is given twice for a.",
		"--artifact a --artifact-metadata-json []":                             "--artifact-metadata-json is no object.",
		"--artifact a --artifact-metadata-json {":                              "--artifact-metadata-json is not JSON",
		"--artifact=": "--artifact names nothing.",
	} {
		ctx, args := typed("update", strings.Fields(line)...)
		read, problem := ctx.parse(updateOptions, args, 0)
		if problem == nil {
			_, problem = readArtifacts(read)
		}
		if problem == nil || problem.exit != exitInvalid || !strings.Contains(problem.Error(), words) || problem.hint == "" {
			t.Errorf("%s: %v", line, problem)
		}
	}
}

func TestAgentAndTaskAreOneSettingButForSendsLabel(t *testing.T) {
	var got []string
	probe := &command{name: "probe", group: "mail", run: func(_ *context, args []string) int { got = args; return 7 }}
	labelled := &command{name: "labelled", group: "mail", own: "--task", run: probe.run}
	commands = append(commands, probe, labelled)
	defer func() { commands = commands[:len(commands)-2] }()
	for line, task := range map[string]string{
		"probe --agent a": "a", "--agent=a probe": "a", "probe --task a": "a", "probe --agent a --task a": "a",
		"--task a labelled x": "a", "labelled --agent a --task x": "a", "labelled --task=x": "",
	} {
		code, _, said, ctx := ran(strings.Fields(line)...)
		if code != 7 || ctx.task != task {
			t.Errorf("%s: %d %q %s", line, code, ctx.task, said)
		}
	}
	if ran("labelled", "--agent", "a", "--task", "x", "--task=y"); strings.Join(got, " ") != "--task x --task=y" {
		t.Error(got)
	}
	if code, _, said, _ := ran("probe", "--agent", "a", "--task", "b"); code != exitInvalid || !strings.Contains(said, "one setting") {
		t.Error(code, said)
	}
}

func TestASenderMayBeNamedWithoutItsTask(t *testing.T) {
	for given, wanted := range map[string]string{
		"": "", "leader": "task:leader", "task:leader": "task:leader", "user": "user", "operator": "operator", "system": "system",
	} {
		if got := fullSender(given); got != wanted {
			t.Errorf("%q: %q", given, got)
		}
	}
}

func TestALeaseIsToldInAFewWords(t *testing.T) {
	in := func(span time.Duration) int64 { return time.Now().Add(span).UnixMilli() }
	for wanted, one := range map[string]*lease{
		"":               nil,
		"lease 8m left":  {Live: true, ExpiresAtMs: in(8*time.Minute + 5*time.Second)},
		"lease 10m left": {Live: true, ExpiresAtMs: in(10 * time.Minute)},
		"lease 3h left":  {Live: true, ExpiresAtMs: in(3*time.Hour + time.Minute)},
		"lease 0s left":  {Live: true, ExpiresAtMs: in(-time.Minute)},
		"lease ran out":  {ExpiresAtMs: in(-time.Minute)},
	} {
		if got := (&thread{Lease: one}).leaseLeft(); got != wanted {
			t.Errorf("%q, not %q", got, wanted)
		}
	}
	if got := (&thread{Lease: &lease{ReleasedAtMs: 1}}).leaseLeft(); got != "" {
		t.Error(got)
	}
}

func TestListsTakeCommasBarsAndSpaces(t *testing.T) {
	for given, wanted := range map[string]string{"": "", "a": "a", "a,b": "a+b", "a|b": "a+b", " a, b ,": "a+b"} {
		if got := strings.Join(splitList(given), "+"); got != wanted {
			t.Errorf("%q: %q", given, got)
		}
	}
}

func TestAWriterRemembersItsFirstError(t *testing.T) {
	good := &sureWriter{to: &bytes.Buffer{}}
	if good.Write([]byte("x")); good.err != nil {
		t.Error(good.err)
	}
	bad := &sureWriter{to: failing{}}
	bad.Write([]byte("x"))
	if bad.err == nil || isTerminal(bad) {
		t.Error("nothing was noticed")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, &problem{message: "full"} }
