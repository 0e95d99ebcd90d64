package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func edited(t *testing.T, text string, comments bool, change func(*jsonFile) *fault) *jsonFile {
	t.Helper()
	file := &jsonFile{&draft{text: []byte(text)}, comments}
	if problem := change(file); problem != nil {
		t.Fatalf("%q: line %d: %s", text, problem.line(file.text), problem.words)
	}
	before, ok := takeBack(file.text, file.steps)
	if !ok || string(before) != text {
		t.Errorf("%q became %q and cannot be taken back: %q", text, file.text, before)
	}
	return file
}

func setTo(path string, value string) func(*jsonFile) *fault {
	return func(f *jsonFile) *fault { return f.set(strings.Split(path, "."), json.RawMessage(value)) }
}

func TestAMemberIsPutInTheFilesOwnStyle(t *testing.T) {
	for _, one := range []struct{ name, before, after string }{
		{"empty file", "", "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n"},
		{"empty object", "{}", "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}"},
		{"no last newline", "{\n  \"x\": 1\n}", "{\n  \"x\": 1,\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}"},
		{"tabs", "{\n\t\"x\": 1\n}\n", "{\n\t\"x\": 1,\n\t\"a\": {\n\t\t\"b\": [\n\t\t\t1\n\t\t]\n\t}\n}\n"},
		{"four spaces", "{\n    \"x\": 1\n}\n", "{\n    \"x\": 1,\n    \"a\": {\n        \"b\": [\n            1\n        ]\n    }\n}\n"},
		{"CRLF", "{\r\n  \"x\": 1\r\n}\r\n", "{\r\n  \"x\": 1,\r\n  \"a\": {\r\n    \"b\": [\r\n      1\r\n    ]\r\n  }\r\n}\r\n"},
		{"byte order mark", "\ufeff{\n  \"x\": 1\n}\n", "\ufeff{\n  \"x\": 1,\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n"},
		{"one line", `{"x":1}`, `{"x":1,"a":{"b":[1]}}`},
		{"one line with spaces", `{"x": 1, "y": 2}`, `{"x": 1, "y": 2, "a": {"b":[1]}}`},
		{"unicode", "{\n  \"ключ\": \"\\u00e4 ü 🎉\"\n}", "{\n  \"ключ\": \"\\u00e4 ü 🎉\",\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}"},
		{"half there", "{\n  \"a\": {}\n}\n", "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n"},
		{"list there", "{\n  \"a\": {\"b\": [0]}\n}\n", "{\n  \"a\": {\"b\": [0,1]}\n}\n"},
		{"empty list there", "{\n  \"a\": {\n    \"b\": [ ]\n  }\n}\n", "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n"},
		{"bracket at the end of the line", "{\n  \"x\": 1 }\n", "{\n  \"x\": 1,\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n"},
	} {
		file := edited(t, one.before, false, func(f *jsonFile) *fault {
			return f.append([]string{"a", "b"}, json.RawMessage("1"))
		})
		if string(file.text) != one.after {
			t.Errorf("%s:\n%q\n%q", one.name, file.text, one.after)
		}
	}
}

func TestCommentsStayWhereTheyAre(t *testing.T) {
	for _, one := range []struct{ before, after string }{
		{"{\n  \"x\": 1 // one\n}\n", "{\n  \"x\": 1, // one\n  \"a\": 2\n}\n"},
		{"{\n  \"x\": 1\n  // \"y\": 2\n}\n", "{\n  \"x\": 1,\n  // \"y\": 2\n  \"a\": 2\n}\n"},
		{"// head\n{ /* nothing yet */ }\n// tail", "// head\n{ /* nothing yet */\n  \"a\": 2\n}\n// tail"},
		{"{\"x\":1 // one\n}", "{\"x\":1, // one\n\"a\":2\n}"},
		{"{\"x\": \"// no comment\"}", "{\"x\": \"// no comment\", \"a\": 2}"},
	} {
		file := edited(t, one.before, true, setTo("a", "2"))
		if string(file.text) != one.after {
			t.Errorf("\n%q\n%q", file.text, one.after)
		}
		if _, problem := file.removeAt([]string{"a"}); problem != nil || plainText(file.text) != plainText([]byte(one.before)) {
			t.Errorf("\n%q\n%q", file.text, one.before)
		}
	}
	if _, problem := parseJSON([]byte("{\n // no\n}"), false); problem == nil || problem.line([]byte("{\n // no\n}")) != 2 {
		t.Error("a comment was taken where there may be none")
	}
}

// plainText is a text without its white space.
func plainText(text []byte) string { return strings.Join(strings.Fields(string(text)), "") }

func TestWhatIsTakenOutLeavesTheRest(t *testing.T) {
	text := "{\n  \"a\": [1, 2, 3],\n  \"b\": {\n    \"c\": 4\n  },\n  \"d\": 5\n}\n"
	for _, one := range []struct {
		path  []string
		after string
	}{
		{[]string{"a"}, "{\n  \"b\": {\n    \"c\": 4\n  },\n  \"d\": 5\n}\n"},
		{[]string{"b"}, "{\n  \"a\": [1, 2, 3],\n  \"d\": 5\n}\n"},
		{[]string{"d"}, "{\n  \"a\": [1, 2, 3],\n  \"b\": {\n    \"c\": 4\n  }\n}\n"},
		{[]string{"b", "c"}, "{\n  \"a\": [1, 2, 3],\n  \"b\": {},\n  \"d\": 5\n}\n"},
		{[]string{"e"}, text},
		{[]string{"a", "c"}, text},
	} {
		file := edited(t, text, false, func(f *jsonFile) *fault { _, problem := f.removeAt(one.path); return problem })
		if string(file.text) != one.after {
			t.Errorf("%v:\n%q", one.path, file.text)
		}
	}
	odd := func(value any) bool { return value == json.Number("1") || value == json.Number("3") }
	file := edited(t, text, false, func(f *jsonFile) *fault { _, problem := f.removeElements([]string{"a"}, odd); return problem })
	if !strings.Contains(string(file.text), `"a": [2],`) {
		t.Errorf("%q", file.text)
	}
}

func TestAFaultSaysItsLine(t *testing.T) {
	for text, line := range map[string]int{
		"{\n  \"a\": 1\n  \"b\": 2\n}":   3,
		"{\n  \"a\": 1,\n}":              3,
		"{\n\n  a: 1\n}":                 3,
		"{\n  \"a\": \n}":                3,
		"{\n  \"a\": 1\n}\nx":            4,
		"{\n  \"a\": \"x\n\"\n}":         2,
		"{\n  \"a\": tru\n}":             2,
		"{\n  \"a\": 01\n}":              2,
		"{\n  \"a\": [1,\n  2\n":         4,
		"{\"a\": \"\\x\"}":               1,
		strings.Repeat("[", 300):         1,
		"{\n\"a\": 1,\n\"b\"\n: 2\n,}\n": 5,
	} {
		if _, problem := parseJSON([]byte(text), false); problem == nil || problem.line([]byte(text)) != line {
			t.Errorf("%q: %+v", text, problem)
		}
	}
	file := &jsonFile{&draft{text: []byte("{\n  \"hooks\": 3\n}")}, false}
	if problem := file.append([]string{"hooks", "Stop"}, json.RawMessage("1")); problem == nil || problem.line(file.text) != 2 {
		t.Error(problem)
	}
	if problem := file.append([]string{"hooks"}, json.RawMessage("1")); problem == nil || len(file.steps) > 0 {
		t.Error(problem)
	}
}

func FuzzWhatIsPutInCanBeTakenOut(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "{\n}", "[]", `{"a":1}`, "{\n  \"hooks\": {\n    \"Stop\": [{\"hooks\": []}]\n  }\n}\n", "\ufeff{\r\n\t\"x\": null\r\n}",
		"{ // c\n}", "{\"a\": 1 /* x */ // y\n , \"b\": [ /* z */ ] }", `{"hooks":{"Stop":[]},"hooks":{}}`, "{\"a\":[1// c\n]}", "/**/{}//",
	} {
		f.Add(seed, true, "hooks", "Stop", `{"hooks":[{"command":"x"}]}`)
		f.Add(seed, false, "a", "b", `1`)
	}
	f.Fuzz(func(t *testing.T, text string, comments bool, one, two, value string) {
		if !json.Valid([]byte(value)) || len(text) > 4096 || !utf8.ValidString(one) || !utf8.ValidString(two) {
			return
		}
		root, problem := parseJSON([]byte(text), comments)
		if !comments && problem == nil && root != nil && !json.Valid(bytes.TrimPrefix([]byte(text), byteOrderMark)) {
			t.Fatalf("%q was taken for JSON", text)
		}
		if json.Valid([]byte(text)) && problem != nil && problem.words != "it is nested too deep" {
			t.Fatalf("%q was refused: %s", text, problem.words)
		}
		if problem != nil {
			return
		}
		for _, append := range []bool{true, false} {
			file := &jsonFile{&draft{text: []byte(text)}, comments}
			path := []string{one, two}
			change := file.set
			if append {
				change = file.append
			}
			before := plainOf(text, comments)
			if problem := change(path, json.RawMessage(value)); problem != nil {
				if string(file.text) != text {
					t.Fatalf("%q was refused and changed to %q", text, file.text)
				}
				continue
			}
			changed, problem := parseJSON(file.text, comments)
			if problem != nil {
				t.Fatalf("%q became %q, line %d: %s", text, file.text, problem.line(file.text), problem.words)
			}
			node, missing := nodeAt(changed, path)
			if len(missing) > 0 {
				t.Fatalf("%q became %q without %v", text, file.text, path)
			}
			if append {
				node = node.items[len(node.items)-1]
			}
			if !sameJSON(plainValue(file.text, node), plainJSON([]byte(value))) {
				t.Fatalf("%q became %q, which says something else", text, file.text)
			}
			if got, ok := takeBack(file.text, file.steps); !ok || string(got) != text {
				t.Fatalf("%q became %q and goes back to %q", text, file.text, got)
			}
			if !append || root == nil {
				continue
			}
			// And by what it says, not by what was done: everything else says what it said.
			list, _ := nodeAt(changed, path)
			file.remove(list, len(list.items)-1)
			if comments && strings.Count(string(file.text), "/") != strings.Count(text+value+one+two, "/")-strings.Count(value+one+two, "/") && !strings.Contains(one+two+value, "/") {
				t.Fatalf("%q lost a comment: %q", text, file.text)
			}
			for at := len(path); at > 0; at-- {
				if _, missing := nodeAt(root, path[:at]); len(missing) > 0 {
					if problem := file.removeEmpty(path[:at]); problem != nil {
						t.Fatal(problem.words)
					}
				}
			}
			if after := plainOf(string(file.text), comments); !sameJSON(before, after) {
				t.Fatalf("%q became %q: %v and not %v", text, file.text, after, before)
			}
		}
	})
}

func plainOf(text string, comments bool) any {
	root, problem := parseJSON([]byte(text), comments)
	if root == nil || problem != nil {
		return nil
	}
	return plainValue([]byte(text), root)
}
