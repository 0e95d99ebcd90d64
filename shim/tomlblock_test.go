package main

import (
	"strings"
	"testing"
)

var marksOfTest = [2]string{"# begin", "# end"}

func TestABlockIsPutAtTheEndAndTakenOutAgain(t *testing.T) {
	for _, one := range []struct{ before, after string }{
		{"", "# begin\nx\n# end\n"},
		{"a\n", "a\n\n# begin\nx\n# end\n"},
		{"a", "a\n\n# begin\nx\n# end\n"},
		{"a\n\n", "a\n\n# begin\nx\n# end\n"},
		{"a\r\nb\r\n", "a\r\nb\r\n\r\n# begin\r\nx\r\n# end\r\n"},
		{"\ufeff", "\ufeff# begin\nx\n# end\n"},
		{"\xe4\xff\n", "\xe4\xff\n\n# begin\nx\n# end\n"},
	} {
		made := &draft{text: []byte(one.before)}
		if problem := made.setBlock(marksOfTest, "x\n"); problem != nil || string(made.text) != one.after {
			t.Errorf("%q became %q: %v", one.before, made.text, problem)
		}
		if before, ok := takeBack(made.text, made.steps); !ok || string(before) != one.before {
			t.Errorf("%q goes back to %q", one.before, before)
		}
		again := &draft{text: made.text}
		if problem := again.setBlock(marksOfTest, "y\nz"); problem != nil || string(again.text) != strings.ReplaceAll(one.after, "x", "y"+newlineOf([]byte(one.after))+"z") {
			t.Errorf("%q: %v", again.text, problem)
		}
		again.splice(len(again.text), len(again.text), "later\n")
		if problem := again.removeBlock(marksOfTest); problem != nil || strings.Contains(string(again.text), "begin") || !strings.HasSuffix(string(again.text), "later\n") {
			t.Errorf("%q: %v", again.text, problem)
		}
	}
	for text, line := range map[string]int{
		"a\n# begin\n": 2, "a\n# end\n": 2, "# begin\n# begin\n# end\n": 2, "# begin\n# end\n# begin\n# end\n": 3,
	} {
		made := &draft{text: []byte(text)}
		if problem := made.setBlock(marksOfTest, "x"); problem == nil || problem.line(made.text) != line || len(made.steps) > 0 {
			t.Errorf("%q: %v", text, problem)
		}
	}
}

func TestATableIsPutOnlyWhereNobodyElseDefinesIt(t *testing.T) {
	good := []string{
		"", "model = \"x\"\n", "[mcp_servers.other]\ncommand = 'x'\n", "[mcp_servers]\n", "mcp_servers.other.command = 'x'",
		"x = \"\"\"\n[mcp_servers.inbox]\n\"\"\"\n", "# [mcp_servers.inbox]\n", "a = [\n  '[mcp_servers.inbox]', # c\n  1,\n]\n",
		"[a.\"b.c\"]\nd = 1979-05-27 07:32:00\ne = { f = 1, g = [1,2] }\r\n[[h]]\n", "t = '''it''s'''''\nu = \"a\\\"b\"\nv = 0x1F\nw = -1.5e3\n",
		"[[mcp_servers_more]]\n", "\"\" = 1\n",
	}
	for _, text := range good {
		made := &draft{text: []byte(text)}
		if problem := made.setTable(marksOfTest, "mcp_servers.inbox", "[mcp_servers.inbox]\ncommand = 'x'"); problem != nil {
			t.Errorf("%q: line %d: %s", text, problem.line(made.text), problem.words)
			continue
		}
		if problem := made.setTable(marksOfTest, "mcp_servers.inbox", "[mcp_servers.inbox]\ncommand = 'y'"); problem != nil ||
			strings.Count(string(made.text), "\n[mcp_servers.inbox]\n") != 1+strings.Count(text, "\n[mcp_servers.inbox]\n") {
			t.Errorf("%q", made.text)
		}
		if before, ok := takeBack(made.text, made.steps); !ok || string(before) != text {
			t.Errorf("%q goes back to %q", text, before)
		}
	}
	for text, line := range map[string]int{
		"\n[mcp_servers.inbox]\n":                    2,
		"[mcp_servers.inbox.env]\nA = 'b'\n":         1,
		"[mcp_servers]\ninbox = { command = 'x' }\n": 2,
		"mcp_servers.inbox.command = 'x'\n":          1,
		"\n\nmcp_servers = { other = {} }\n":         3,
		"[[mcp_servers]]\n":                          1,
		"[ mcp_servers . \"inbox\" ]\n":              1,
		"a = 1\nb\n":                                 2,
		"a = 1\nb =\n":                               2,
		"a = \"x\nb = 1\n":                           1,
		"a = 1\nb = '''\n":                           2,
		"a = [1, 2\n":                                2,
		"[a\n":                                       1,
		"a = yes\n":                                  1,
		"a = 1 b = 2\n":                              1,
		"[a]\n{ \"json\": true }\n":                  2,
		"x = " + strings.Repeat("[", 400):            1,
	} {
		made := &draft{text: []byte(text)}
		problem := made.setTable(marksOfTest, "mcp_servers.inbox", "[mcp_servers.inbox]")
		if problem == nil || problem.line(made.text) != line || len(made.steps) > 0 {
			t.Errorf("%q: %+v", text, problem)
		}
	}
}

func FuzzTOML(f *testing.F) {
	for _, seed := range []string{"a = 1\n", "[a]\nb = ['x', \"y\"]", "a = \"\"\"\\\"\"\"\"\"\n", "'", "a = {", "[[\"", "a=[[[[\n#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		made := &draft{text: []byte(text)}
		if made.setTable(marksOfTest, "a.b", "[a.b]\nc = 1") != nil {
			return
		}
		if _, problem := scanTOML(made.text); problem != nil {
			t.Fatalf("%q became %q: %s", text, made.text, problem.words)
		}
		if before, ok := takeBack(made.text, made.steps); !ok || string(before) != text {
			t.Fatalf("%q goes back to %q", text, before)
		}
	})
}
