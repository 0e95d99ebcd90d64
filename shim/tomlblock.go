// Blocks: lines of ours between two marks, at the end of somebody else's text; and just enough of TOML to know that a table
// of ours can stand there. Everything around a block stays what it was.
package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// span is a part of a text.
type span struct{ start, end int }

// findBlock is the block between two marks, with its marks and line ends; nil when there is none. A mark is a line of its own
// that begins where lines begin: one that is indented, or stands in a text that only speaks of it, is somebody's words.
func findBlock(text []byte, marks [2]string) (*span, *fault) {
	var found *span
	spoken := spokenOf(text, marks)
	begun, at := -1, 0
	if bytes.HasPrefix(text, byteOrderMark) {
		at = len(byteOrderMark)
	}
	for at < len(text) {
		end := at + len(lineAt(text, at))
		line := strings.TrimRight(string(text[at:end]), " \t\r\n")
		for len(spoken) > 0 && spoken[0].end <= at {
			spoken = spoken[1:]
		}
		switch {
		case len(spoken) > 0 && spoken[0].start < end:
		case line == marks[0] && (begun >= 0 || found != nil):
			return nil, &fault{at, "there are two lines `" + marks[0] + "`"}
		case line == marks[0]:
			begun = at
		case line == marks[1] && begun < 0:
			return nil, &fault{at, "`" + marks[1] + "` has no beginning"}
		case line == marks[1]:
			found, begun = &span{begun, end}, -1
		}
		at = end
	}
	if begun >= 0 {
		return nil, &fault{begun, "`" + marks[0] + "` has no end"}
	}
	return found, nil
}

// spokenOf are the parts of a text in which marks are only spoken of: code between fences in Markdown, long texts in TOML.
func spokenOf(text []byte, marks [2]string) []span {
	if strings.HasPrefix(marks[0], "<!--") {
		return fencedCode(text)
	}
	scan := &tomlScanner{text: text}
	scan.keys()
	return scan.long
}

// fencedCode is what stands between lines of ``` or ~~~; a fence that nobody closes hides nothing.
func fencedCode(text []byte) []span {
	var found []span
	start, fence := 0, ""
	for at := 0; at < len(text); {
		line := lineAt(text, at)
		inner := bytes.TrimLeft(line, " ")
		mark := leading(inner, '`')
		if mark == "" {
			mark = leading(inner, '~')
		}
		rest := bytes.TrimSpace(inner[len(mark):])
		switch {
		case len(line)-len(inner) > 3 || len(mark) < 3:
		case fence == "" && (mark[0] == '~' || bytes.IndexByte(rest, '`') < 0):
			start, fence = at, mark
		case fence != "" && strings.HasPrefix(mark, fence) && len(rest) == 0:
			found, fence = append(found, span{start, at + len(line)}), ""
		}
		at += len(line)
	}
	return found
}

// leading is how a text begins with one letter again and again.
func leading(text []byte, letter byte) string {
	count := 0
	for count < len(text) && text[count] == letter {
		count++
	}
	return string(text[:count])
}

// lineAt is the line that begins here, with its end.
func lineAt(text []byte, at int) []byte {
	if length := bytes.IndexByte(text[at:], '\n'); length >= 0 {
		return text[at : at+length+1]
	}
	return text[at:]
}

// setBlock makes the block say this: in its place if it is there, else at the end.
func (d *draft) setBlock(marks [2]string, text string) *fault {
	found, problem := findBlock(d.text, marks)
	if problem != nil {
		return problem
	}
	newline := newlineOf(d.text)
	lines := marks[0] + "\n" + strings.TrimRight(text, "\n") + "\n" + marks[1] + "\n"
	lines = strings.ReplaceAll(lines, "\n", newline)
	if found != nil {
		if !bytes.HasSuffix(d.text[found.start:found.end], []byte("\n")) {
			lines = strings.TrimSuffix(lines, newline)
		}
		if string(d.text[found.start:found.end]) != lines {
			d.splice(found.start, found.end, lines)
		}
		return nil
	}
	if content := bytes.TrimPrefix(d.text, byteOrderMark); len(content) > 0 {
		if !bytes.HasSuffix(content, []byte("\n")) {
			lines = newline + lines
		}
		if len(bytes.TrimSpace(content)) > 0 && !bytes.HasSuffix(content, []byte("\n"+newline)) {
			lines = newline + lines
		}
	}
	d.splice(len(d.text), len(d.text), lines)
	return nil
}

// removeBlock takes the block out, and the empty line that was put before it.
func (d *draft) removeBlock(marks [2]string) *fault {
	found, problem := findBlock(d.text, marks)
	if problem != nil || found == nil {
		return problem
	}
	start := found.start
	for _, blank := range []string{"\r\n", "\n"} {
		if before := string(d.text[:start]); strings.HasSuffix(before, "\n"+blank) {
			start -= len(blank)
			break
		}
	}
	d.splice(start, found.end, "")
	return nil
}

// setTable is setBlock for a table of a TOML file, which must not be defined anywhere else.
func (d *draft) setTable(marks [2]string, table, text string) *fault {
	block, problem := findBlock(d.text, marks)
	if problem != nil {
		return problem
	}
	defined, problem := scanTOML(d.text)
	if problem != nil {
		return problem
	}
	for _, one := range defined {
		if block != nil && one.at >= block.start && one.at < block.end {
			continue
		}
		if one.clashes(table) {
			return &fault{one.at, "`" + table + "` is defined there, and not by inbox attach"}
		}
	}
	return d.setBlock(marks, text)
}

// tomlKey is one header or one key of a TOML file, with the names of the tables it stands in.
type tomlKey struct {
	at     int
	path   []string
	header bool
	list   bool // a header of a list of tables
}

// clashes says whether a table cannot be added because of this.
func (k *tomlKey) clashes(table string) bool {
	wanted := strings.Split(table, ".")
	shorter := min(len(wanted), len(k.path))
	for at := range shorter {
		if wanted[at] != k.path[at] {
			return false
		}
	}
	return len(k.path) >= len(wanted) || !k.header || k.list
}

type tomlScanner struct {
	text  []byte
	at    int
	fault *fault
	long  []span // texts of several lines
}

// scanTOML lists what a file defines, or says in which line it is none. It is no full reader: it knows strings, brackets and
// lines, so that it cannot mistake one for another.
func scanTOML(text []byte) ([]tomlKey, *fault) {
	scan := &tomlScanner{text: text}
	found := scan.keys()
	return found, scan.fault
}

func (s *tomlScanner) keys() (found []tomlKey) {
	text := s.text
	if bytes.HasPrefix(text, byteOrderMark) {
		s.at = len(byteOrderMark)
	}
	var table []string
	for s.fault == nil {
		s.skip(true)
		if s.at >= len(text) {
			break
		}
		key := tomlKey{at: s.at}
		if text[s.at] == '[' {
			s.at++
			if key.list = s.peek() == '['; key.list {
				s.at++
			}
			key.header = true
			key.path = s.keyPath()
			closing := "]"
			if key.list {
				closing = "]]"
			}
			if s.fault == nil && !bytes.HasPrefix(text[s.at:], []byte(closing)) {
				s.fail("a header does not end")
			}
			s.at += len(closing)
			table = key.path
		} else {
			path := s.keyPath()
			if s.fault == nil && s.peek() != '=' {
				s.fail("a line is neither a header nor a key with a value")
			}
			s.at++
			s.skip(false)
			s.value(0)
			key.path = append(append([]string{}, table...), path...)
		}
		if s.fault != nil {
			break
		}
		s.skip(false)
		if s.at < len(text) && s.peek() != '\n' && !bytes.HasPrefix(text[s.at:], []byte("\r\n")) {
			s.fail("something stands behind the end of a value")
			break
		}
		found = append(found, key)
	}
	return found
}

func (s *tomlScanner) fail(words string) {
	if s.fault == nil {
		s.fault = &fault{min(s.at, len(s.text)), words}
	}
}

func (s *tomlScanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// skip passes spaces and a comment; with lines, also line ends and further comments.
func (s *tomlScanner) skip(lines bool) {
	for s.at < len(s.text) {
		switch letter := s.text[s.at]; {
		case letter == ' ' || letter == '\t':
			s.at++
		case letter == '#':
			line := bytes.TrimRight(lineAt(s.text, s.at), "\r\n")
			s.at += len(line)
		case lines && (letter == '\n' || bytes.HasPrefix(s.text[s.at:], []byte("\r\n"))):
			s.at++
		default:
			return
		}
	}
}

func (s *tomlScanner) keyPath() []string {
	var path []string
	for s.fault == nil {
		s.skip(false)
		switch letter := s.peek(); {
		case letter == '"' || letter == '\'':
			start := s.at
			s.quoted()
			name := string(s.text[min(start+1, len(s.text)):max(start+1, min(s.at, len(s.text))-1)])
			var plain string
			if letter == '"' && json.Unmarshal([]byte(`"`+name+`"`), &plain) == nil {
				name = plain // its escapes are JSON's, nearly
			}
			path = append(path, name)
		default:
			start := s.at
			for isLetterOrDigit(s.peek()) || s.peek() == '_' || s.peek() == '-' {
				s.at++
			}
			if start == s.at {
				s.fail("a key is missing")
				return path
			}
			path = append(path, string(s.text[start:s.at]))
		}
		s.skip(false)
		if s.peek() != '.' {
			return path
		}
		s.at++
	}
	return path
}

// tomlWord is made when it is needed: a hook must not wait for it.
func tomlWord() *regexp.Regexp {
	return regexp.MustCompile(`^(true|false|[+-]?(inf|nan)|0[xob][0-9A-Fa-f_]+|[+-]?[0-9][0-9_]*(\.[0-9_]+)?([eE][+-]?[0-9_]+)?|` +
		`\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d(:\d\d(\.\d+)?)?)$`)
}

func (s *tomlScanner) value(depth int) {
	switch letter := s.peek(); {
	case s.fault != nil:
	case depth > jsonDepthMax:
		s.fail("it is nested too deep")
	case letter == '"' || letter == '\'':
		s.quoted()
	case letter == '[':
		s.list(depth, ']')
	case letter == '{':
		s.list(depth, '}')
	default:
		start := s.at
		for s.at < len(s.text) && bytes.IndexByte([]byte(",]}#\r\n"), s.text[s.at]) < 0 {
			s.at++
		}
		if word := strings.TrimRight(string(s.text[start:s.at]), " \t"); !tomlWord().MatchString(word) {
			s.at = start
			s.fail("a value is missing or is none")
		}
	}
}

// list passes a list or an inline table.
func (s *tomlScanner) list(depth int, closing byte) {
	for s.at++; s.fault == nil; {
		s.skip(true)
		if s.peek() == closing {
			s.at++
			return
		}
		if closing == '}' {
			s.keyPath()
			if s.fault == nil && s.peek() != '=' {
				s.fail("an inline table has a key without a value")
				return
			}
			s.at++
			s.skip(true)
		}
		s.value(depth + 1)
		s.skip(true)
		switch {
		case s.fault != nil:
		case s.peek() == ',':
			s.at++
		case s.peek() != closing:
			s.fail("a bracket does not close")
		}
	}
}

// quoted passes a string of any of the four kinds.
func (s *tomlScanner) quoted() {
	start, quote := s.at, string(s.text[s.at])
	long := bytes.HasPrefix(s.text[s.at:], []byte(strings.Repeat(quote, 3)))
	closing := quote
	if long {
		closing = strings.Repeat(quote, 3)
	}
	for s.at += len(closing); s.at < len(s.text); s.at++ {
		switch letter := s.text[s.at]; {
		case letter == '\\' && quote == `"`:
			s.at++
		case letter == '\n' && !long:
			s.at = start
			s.fail("a text does not end in its line")
			return
		case bytes.HasPrefix(s.text[s.at:], []byte(closing)):
			s.at += len(closing)
			for extra := 0; long && extra < 2 && s.peek() == quote[0]; extra++ {
				s.at++ // up to two quotes may stand before the closing three
			}
			if long {
				s.long = append(s.long, span{start, s.at})
			}
			return
		}
	}
	s.at = start
	s.fail("a text does not end")
}
