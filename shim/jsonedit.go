// A text editor for JSON: members and elements are put in and taken out, and every other byte stays what it was.
//
// Other people's settings files are edited here, so nothing is ever printed anew: order, indentation, comments (where the
// file's reader allows them), line ends, a byte order mark and a missing last newline are theirs. Each change is a step that
// can be taken back exactly. What does not parse is not touched; the fault says in which line.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

const jsonDepthMax = 200

// step is one splice: at this place so many bytes were put, and these were taken.
type step struct {
	At   int   `json:"at"`
	Put  int   `json:"put"`
	Took exact `json:"took,omitempty"`
}

// draft is a text that is being changed, and how to change it back.
type draft struct {
	text  []byte
	steps []step
}

func (d *draft) splice(at, end int, put string) {
	if at == end && put == "" {
		return
	}
	d.steps = append(d.steps, step{At: at, Put: len(put), Took: exact(bytes.Clone(d.text[at:end]))})
	changed := make([]byte, 0, len(d.text)+len(put))
	changed = append(append(append(changed, d.text[:at]...), put...), d.text[end:]...)
	d.text = changed
}

// takeBack undoes steps, the last first; ok is false when they cannot have been made on this text.
func takeBack(text []byte, steps []step) (before []byte, ok bool) {
	for at := len(steps) - 1; at >= 0; at-- {
		one := steps[at]
		if one.At < 0 || one.Put < 0 || one.At+one.Put > len(text) {
			return nil, false
		}
		changed := make([]byte, 0, len(text)+len(one.Took))
		changed = append(append(append(changed, text[:one.At]...), one.Took...), text[one.At+one.Put:]...)
		text = changed
	}
	return text, true
}

// jsonNode is one value and where it stands.
type jsonNode struct {
	kind  byte   // { [ " or, for numbers and words, 0
	start int    // its first byte
	end   int    // behind its last one
	name  string // of a member
	from  int    // where the member begins, with its name; start, for others
	comma int    // where the comma behind it is, or -1
	items []*jsonNode
}

// fault is why a text is not what it should be.
type fault struct {
	at    int
	words string
}

// line is where a fault is, counted from 1.
func (f *fault) line(text []byte) int {
	return 1 + bytes.Count(text[:min(f.at, len(text))], []byte("\n"))
}

type jsonParser struct {
	text     []byte
	at       int
	comments bool
	depth    int
	fault    *fault
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// parseJSON reads a whole file. A file with nothing in it has no root, and no fault.
func parseJSON(text []byte, comments bool) (*jsonNode, *fault) {
	parser := &jsonParser{text: text, comments: comments}
	if bytes.HasPrefix(text, byteOrderMark) {
		parser.at = len(byteOrderMark)
	}
	parser.skip()
	if parser.fault == nil && parser.at == len(text) {
		return nil, nil
	}
	root := parser.value()
	parser.skip()
	if parser.fault == nil && parser.at < len(text) {
		parser.fail("something stands behind the end")
	}
	return root, parser.fault
}

func (p *jsonParser) fail(words string) {
	if p.fault == nil {
		p.fault = &fault{p.at, words}
	}
	p.at = len(p.text)
}

func (p *jsonParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// skip passes white space and, where they are allowed, comments.
func (p *jsonParser) skip() {
	for p.at < len(p.text) {
		switch letter := p.text[p.at]; {
		case letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r':
			p.at++
		case letter == '/':
			end := commentEnd(p.text, p.at)
			if !p.comments && end > p.at {
				p.fail("it has a comment, which its reader does not allow")
				return
			}
			if end < 0 || end == p.at {
				p.fail("a comment does not end")
				return
			}
			p.at = end
		default:
			return
		}
	}
}

// commentEnd is behind the comment that begins here; the same place when none does, -1 when it does not end.
func commentEnd(text []byte, at int) int {
	rest := text[at:]
	if bytes.HasPrefix(rest, []byte("//")) {
		if length := bytes.IndexAny(rest, "\r\n"); length >= 0 {
			return at + length
		}
		return len(text)
	}
	if bytes.HasPrefix(rest, []byte("/*")) {
		length := bytes.Index(rest[2:], []byte("*/"))
		if length < 0 {
			return -1
		}
		return at + length + 4
	}
	return at
}

func (p *jsonParser) value() *jsonNode {
	node := &jsonNode{start: p.at, end: p.at, from: p.at, comma: -1}
	if p.fault != nil {
		return node
	}
	switch letter := p.peek(); letter {
	case '{', '[':
		node.kind = letter
		if p.depth == jsonDepthMax {
			p.fail("it is nested too deep")
			return node
		}
		p.depth++
		p.container(node)
		p.depth--
	case '"':
		node.kind = '"'
		p.quoted()
	default:
		for p.at < len(p.text) && (isLetterOrDigit(p.text[p.at]) || bytes.IndexByte([]byte("+-."), p.text[p.at]) >= 0) {
			p.at++
		}
		if !json.Valid(p.text[node.start:p.at]) {
			p.at = node.start
			p.fail("a value is missing or is none")
		}
	}
	node.end = p.at
	return node
}

func (p *jsonParser) container(node *jsonNode) {
	closing := byte('}')
	if node.kind == '[' {
		closing = ']'
	}
	p.at++
	for {
		p.skip()
		if p.peek() == closing && (len(node.items) == 0 || node.items[len(node.items)-1].comma < 0) {
			p.at++
			return
		}
		from := p.at
		name := ""
		if node.kind == '{' {
			if p.peek() != '"' {
				p.fail("a name in quotes is missing")
				return
			}
			name = p.quoted()
			p.skip()
			if p.peek() != ':' {
				p.fail("a colon is missing")
				return
			}
			p.at++
			p.skip()
		}
		item := p.value()
		item.name, item.from = name, from
		node.items = append(node.items, item)
		p.skip()
		switch p.peek() {
		case ',':
			item.comma = p.at
			p.at++
		case closing:
		default:
			p.fail("a comma or the closing bracket is missing")
		}
		if p.fault != nil {
			return
		}
	}
}

// quoted passes a text in quotes and returns it.
func (p *jsonParser) quoted() string {
	start := p.at
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			var text string
			if json.Unmarshal(p.text[start:p.at], &text) != nil {
				p.at = start
				p.fail("a text is not a JSON text")
			}
			return text
		case '\n':
			p.at = start
			p.fail("a text does not end in its line")
			return ""
		}
	}
	p.at = start
	p.fail("a text does not end")
	return ""
}

// member is an object's member of this name; the last, when there are several, because that is the one readers take.
func (n *jsonNode) member(name string) *jsonNode {
	for at := len(n.items) - 1; at >= 0; at-- {
		if n.items[at].name == name {
			return n.items[at]
		}
	}
	return nil
}

// plainValue is what a node says, without comments and spaces, to be compared.
func plainValue(text []byte, node *jsonNode) any {
	switch node.kind {
	case '{':
		object := map[string]any{}
		for _, item := range node.items {
			object[item.name] = plainValue(text, item)
		}
		return object
	case '[':
		list := make([]any, 0, len(node.items))
		for _, item := range node.items {
			list = append(list, plainValue(text, item))
		}
		return list
	}
	return plainJSON(text[node.start:node.end])
}

// plainJSON is a JSON value as it is compared: numbers by their digits.
func plainJSON(raw []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

func sameJSON(one, other any) bool { return reflect.DeepEqual(one, other) }

// jsonFile is a draft of a JSON file.
type jsonFile struct {
	*draft
	comments bool
}

func (f *jsonFile) parse() (*jsonNode, *fault) { return parseJSON(f.text, f.comments) }

// nodeAt is the node at a path, or the deepest that there is on the way to it and what of the path is missing there.
func nodeAt(root *jsonNode, path []string) (node *jsonNode, missing []string) {
	node = root
	for at, name := range path {
		if node.kind != '{' {
			return node, path[at:]
		}
		next := node.member(name)
		if next == nil {
			return node, path[at:]
		}
		node = next
	}
	return node, nil
}

// set makes the member at a path this value, and what is missing on the way there.
func (f *jsonFile) set(path []string, value json.RawMessage) *fault {
	root, problem := f.parse()
	if problem != nil {
		return problem
	}
	if root == nil {
		return f.begin(nest(path, value))
	}
	node, missing := nodeAt(root, path)
	if len(missing) == 0 {
		style := f.styleOf(root)
		f.splice(node.start, node.end, style.write(value, f.indentAt(node.from), f.isFlat(root)))
		return nil
	}
	if node.kind != '{' {
		return f.notAnObject(node, path, missing)
	}
	f.insert(root, node, &missing[0], nest(missing[1:], value))
	return nil
}

// append adds a value to the list at a path, behind all that is there.
func (f *jsonFile) append(path []string, value json.RawMessage) *fault {
	root, problem := f.parse()
	if problem != nil {
		return problem
	}
	list := json.RawMessage("[" + string(value) + "]")
	if root == nil {
		return f.begin(nest(path, list))
	}
	node, missing := nodeAt(root, path)
	if len(missing) > 0 {
		if node.kind != '{' {
			return f.notAnObject(node, path, missing)
		}
		f.insert(root, node, &missing[0], nest(missing[1:], list))
		return nil
	}
	if node.kind != '[' {
		return &fault{node.start, "`" + strings.Join(path, ".") + "` is not a list"}
	}
	f.insert(root, node, nil, value)
	return nil
}

func (f *jsonFile) notAnObject(node *jsonNode, path, missing []string) *fault {
	name := strings.Join(path[:len(path)-len(missing)], ".")
	if name == "" {
		return &fault{node.start, "it is not a JSON object"}
	}
	return &fault{node.start, "`" + name + "` is not an object"}
}

// nest wraps a value into objects, one for each name.
func nest(path []string, value json.RawMessage) json.RawMessage {
	for at := len(path) - 1; at >= 0; at-- {
		value = json.RawMessage("{" + string(jsonOf(path[at])) + ":" + string(value) + "}")
	}
	return value
}

// begin writes the first value of a file that has none.
func (f *jsonFile) begin(value json.RawMessage) *fault {
	style := jsonStyle{unit: "  ", newline: newlineOf(f.text)}
	text := style.write(value, "", false) + style.newline
	if _, runsOn := f.behindComments(0, len(f.text)); runsOn && !bytes.HasSuffix(f.text, []byte("\n")) {
		text = style.newline + text
	}
	f.splice(len(f.text), len(f.text), text)
	return nil
}

// jsonStyle is how a file is laid out.
type jsonStyle struct {
	unit    string // one step of indentation
	newline string
}

func newlineOf(text []byte) string {
	if at := bytes.IndexByte(text, '\n'); at > 0 && text[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

func (f *jsonFile) styleOf(root *jsonNode) jsonStyle {
	style := jsonStyle{unit: "  ", newline: newlineOf(f.text)}
	if len(root.items) > 0 && f.hasBreak(root.start, root.items[0].from) {
		if indent := f.indentAt(root.items[0].from); indent != "" {
			style.unit = indent
		}
	}
	return style
}

// isFlat says that the whole file stands in one line: what is added stays in it.
func (f *jsonFile) isFlat(root *jsonNode) bool {
	return len(root.items) > 0 && !f.hasBreak(root.start, root.end)
}

func (f *jsonFile) hasBreak(from, to int) bool { return bytes.IndexByte(f.text[from:to], '\n') >= 0 }

// indentAt is the white space that the line of a place begins with.
func (f *jsonFile) indentAt(at int) string {
	start := bytes.LastIndexByte(f.text[:at], '\n') + 1
	end := start
	for end < at && (f.text[end] == ' ' || f.text[end] == '\t') {
		end++
	}
	return string(f.text[start:end])
}

// write is a value in this style, its further lines indented by prefix and more.
func (s jsonStyle) write(value json.RawMessage, prefix string, flat bool) string {
	var out bytes.Buffer
	if flat {
		json.Compact(&out, value)
	} else {
		json.Indent(&out, value, prefix, s.unit)
	}
	return strings.ReplaceAll(out.String(), "\n", s.newline)
}

// insert puts an item behind the last one of a container; name is nil in a list.
func (f *jsonFile) insert(root, into *jsonNode, name *string, value json.RawMessage) {
	style := f.styleOf(root)
	count := len(into.items)
	last := into.start + 1 // behind what is there
	if count > 0 {
		last = into.items[count-1].end
	}
	place, runsOn := f.behindComments(last, into.end-1)
	flat := count > 0 && !f.hasBreak(into.start, into.items[0].from) || count == 0 && f.isFlat(root)
	label, gap := "", " "
	if flat && count > 0 && f.text[into.items[0].start-1] != ' ' {
		gap = ""
	}
	if name != nil {
		label = string(jsonOf(*name)) + ":" + gap
	}
	var text string
	rest := place // so far the white space behind goes
	if flat {
		text = label + style.write(value, "", true)
		if runsOn {
			text = style.newline + text
		} else if count > 0 {
			text = gap + text
		}
	} else {
		outer := f.indentAt(into.from)
		inner := outer + style.unit
		if count > 0 {
			inner = f.indentAt(into.items[0].from)
		}
		text = style.newline + inner + label + style.write(value, inner, false)
		if !f.hasBreak(place, into.end) {
			text += style.newline + outer
			rest = into.end - 1
		}
	}
	f.splice(place, rest, text)
	if count > 0 {
		f.splice(last, last, ",")
	}
}

// behindComments is the place behind the last comment between two others, or the first when there is none; runsOn says that
// this comment ends only with its line.
func (f *jsonFile) behindComments(from, to int) (place int, runsOn bool) {
	place = from
	for at := from; at < to; {
		if f.text[at] == '/' {
			runsOn = f.text[at+1] == '/'
			at = commentEnd(f.text, at)
			place = at
			continue
		}
		at++
	}
	return place, runsOn
}

// remove takes the item out that stands at this place of a container, with its comma and the white space before it.
func (f *jsonFile) remove(from *jsonNode, index int) {
	item := from.items[index]
	if index < len(from.items)-1 {
		end := item.comma + 1
		for end < len(f.text) && bytes.IndexByte([]byte(" \t\r\n"), f.text[end]) >= 0 {
			end++
		}
		f.splice(item.from, end, "")
		return
	}
	behind := from.start + 1
	if index > 0 {
		behind = from.items[index-1].comma + 1
	}
	start, runsOn := f.behindComments(behind, item.from)
	end := item.end
	if runsOn && !f.hasBreak(end, from.end) {
		start += bytes.IndexByte(f.text[start:], '\n') + 1 // the comment would swallow the bracket
	}
	if index == 0 && start == behind && len(bytes.TrimSpace(f.text[end:from.end-1])) == 0 {
		end = from.end - 1 // nothing is left: {}
	}
	f.splice(start, end, "")
	if index > 0 {
		f.splice(behind-1, behind, "")
	}
}

// removeAt takes out the member at a path; it says whether there was one.
func (f *jsonFile) removeAt(path []string) (bool, *fault) {
	root, problem := f.parse()
	if problem != nil || root == nil || len(path) == 0 {
		return false, problem
	}
	node, missing := nodeAt(root, path[:len(path)-1])
	if len(missing) > 0 || node.kind != '{' {
		return false, nil
	}
	for at := len(node.items) - 1; at >= 0; at-- {
		if node.items[at].name == path[len(path)-1] {
			f.remove(node, at)
			return true, nil
		}
	}
	return false, nil
}

// removeEmpty takes out the container at a path if nothing is in it, not even a comment.
func (f *jsonFile) removeEmpty(path []string) *fault {
	root, problem := f.parse()
	if problem != nil || root == nil {
		return problem
	}
	node, missing := nodeAt(root, path)
	if len(missing) > 0 || node.kind != '{' && node.kind != '[' || len(node.items) > 0 ||
		len(bytes.TrimSpace(f.text[node.start+1:node.end-1])) > 0 {
		return nil
	}
	_, problem = f.removeAt(path)
	return problem
}

// removeElements takes out of the list at a path what a test picks; it returns how many.
func (f *jsonFile) removeElements(path []string, picks func(value any) bool) (int, *fault) {
	count := 0
	for {
		root, problem := f.parse()
		if problem != nil || root == nil {
			return count, problem
		}
		node, missing := nodeAt(root, path)
		if len(missing) > 0 || node.kind != '[' {
			return count, nil
		}
		index := -1
		for at, item := range node.items {
			if picks(plainValue(f.text, item)) {
				index = at
			}
		}
		if index < 0 {
			return count, nil
		}
		f.remove(node, index)
		count++
	}
}

// exact is bytes as JSON: a text where they are one, so that people can read it.
type exact []byte

func (e exact) MarshalJSON() ([]byte, error) {
	if text := jsonOf(string(e)); string(e) == stringOf(text) {
		return text, nil
	}
	return json.Marshal(map[string][]byte{"base64": e})
}

func (e *exact) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*e = exact(stringOf(raw))
		return nil
	}
	var coded struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(raw, &coded); err != nil {
		return fmt.Errorf("neither a text nor base64: %w", err)
	}
	*e = coded.Base64
	return nil
}

func stringOf(raw []byte) string {
	var text string
	json.Unmarshal(raw, &text)
	return text
}
