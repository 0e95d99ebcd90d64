// A small reader of one JSON object: it copies the few top-level fields that are wanted and lets the rest run past.
//
// A host hands over a tool's whole output, hundreds of megabytes at times, before the line that says which event this
// is. Nothing of that may be kept, so this works in one fixed buffer. What is skipped is not checked beyond its brackets
// and quotes; what is kept comes out as valid JSON in UTF-8 whatever went in. It never panics and never waits for more
// than the object's last brace.
package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// wanted is a top-level field to copy.
type wanted struct {
	name     string
	maxBytes int // of the value as it stands in the JSON text, quotes included
	cut      cut // what becomes of a string longer than that; any other value that long is left out
}

type cut int

const (
	cutAll  cut = iota // left out
	cutTail            // its beginning is kept
	cutHead            // its end is kept
)

var errNoObject = errors.New("not a JSON object")

// nameMax is longer than any wanted name; a longer name is none of them.
const nameMax = 64

// scanObject reads one JSON object and returns the JSON text of each wanted field, nil where it is absent. Strings,
// numbers and words are kept; an object or a list never is. A name with a dot, `outer.inner`, is a field of an object in
// the object. Of a field that comes twice the last counts.
func scanObject(input io.Reader, fields []wanted, buffer []byte) ([][]byte, error) {
	scan := scanner{input: input, buffer: buffer}
	values := make([][]byte, len(fields))
	if scan.token() != '{' || !scan.object("", fields, values) {
		return nil, errNoObject
	}
	return values, nil
}

// object reads the rest of an object whose fields are known by their names behind `outer`.
func (s *scanner) object(outer string, fields []wanted, values [][]byte) bool {
	next := s.token()
	if next == '}' {
		return true
	}
	for {
		if next != '"' {
			return false
		}
		name, ok := s.text(nameMax, cutAll)
		if !ok || s.token() != ':' || !s.member(outer, name, fields, values) {
			return false
		}
		switch s.token() {
		case '}':
			return true
		case ',':
			next = s.token()
		default:
			return false
		}
	}
}

// member reads one value of an object: kept if it is wanted, entered if something in it is, skipped otherwise.
func (s *scanner) member(outer string, name []byte, fields []wanted, values [][]byte) bool {
	if len(name) < 3 {
		return s.skip()
	}
	name = name[1 : len(name)-1]
	for at := range fields {
		inner, belongs := strings.CutPrefix(fields[at].name, outer)
		if !belongs || !strings.HasPrefix(inner, string(name)) {
			continue
		}
		if len(inner) == len(name) {
			kept, ok := s.value(fields[at])
			values[at] = kept
			return ok
		}
		if inner[len(name)] == '.' && outer == "" {
			switch s.token() {
			case '{':
				return s.object(string(name)+".", fields, values)
			case 0:
				return false
			}
			s.at--
			return s.skip()
		}
	}
	return s.skip()
}

type scanner struct {
	input  io.Reader
	buffer []byte
	at     int // the next byte
	end    int // how far the buffer is filled
	ended  bool
}

// fill makes sure that there is a next byte; false at the end of the input.
func (s *scanner) fill() bool {
	for empty := 0; s.at >= s.end; empty++ {
		if s.ended || empty > 100 {
			return false
		}
		read, err := s.input.Read(s.buffer)
		s.at, s.end = 0, max(0, min(read, len(s.buffer)))
		s.ended = err != nil
	}
	return true
}

// token is the next byte that is not white space, 0 at the end.
func (s *scanner) token() byte {
	for s.fill() {
		letter := s.buffer[s.at]
		s.at++
		if letter != ' ' && letter != '\n' && letter != '\r' && letter != '\t' {
			return letter
		}
	}
	return 0
}

// skip lets one value run past, however large.
func (s *scanner) skip() bool {
	switch letter := s.token(); letter {
	case '"':
		return s.skipText()
	case '{', '[':
		for depth := 1; depth > 0; {
			if !s.fill() {
				return false
			}
			chunk := s.buffer[s.at:s.end]
			text := false
			used := len(chunk)
			for at, letter := range chunk {
				if letter == '"' {
					text = true
				} else if letter == '{' || letter == '[' {
					depth++
					continue
				} else if letter == '}' || letter == ']' {
					depth--
				} else {
					continue
				}
				if text || depth == 0 {
					used = at + 1
					break
				}
			}
			s.at += used
			if text && !s.skipText() {
				return false
			}
		}
		return true
	default:
		return startsWord(letter) && s.word(nil)
	}
}

// skipText lets the rest of a string run past. It jumps from quote to quote: a tool's output may be hundreds of megabytes, and
// a look at each letter of it would use up the time that the mail needs.
func (s *scanner) skipText() bool {
	escaped := false // the first byte of what follows is
	for s.fill() {
		chunk := s.buffer[s.at:s.end]
		for at := 0; at < len(chunk); {
			quote := bytes.IndexByte(chunk[at:], '"')
			text := chunk[at:]
			if quote >= 0 {
				text = text[:quote]
			}
			slashes := len(text) - len(bytes.TrimRight(text, "\\"))
			// With nothing between, what was escaped before counts as one more.
			if escaped && slashes == len(text) {
				slashes++
			}
			escaped = slashes%2 == 1
			if quote < 0 {
				break
			}
			at += quote + 1
			if !escaped {
				s.at += at
				return true
			}
			escaped = false
		}
		s.at = s.end
	}
	return false
}

// value copies one value; nil and true where it is not of the kind that is kept.
func (s *scanner) value(field wanted) ([]byte, bool) {
	letter := s.token()
	switch {
	case letter == '"':
		return s.text(field.maxBytes, field.cut)
	case letter == '{' || letter == '[':
		s.at--
		return nil, s.skip()
	case !startsWord(letter):
		return nil, false
	}
	kept := make([]byte, 0, 32)
	kept = append(kept, letter)
	if !s.word(&kept) {
		return nil, false
	}
	if !isWord(kept) {
		return nil, false
	}
	return kept, true
}

func startsWord(letter byte) bool {
	return letter == '-' || letter >= '0' && letter <= '9' || letter == 't' || letter == 'f' || letter == 'n'
}

// wordMax is longer than any number or word that means something here.
const wordMax = 32

// word lets the rest of a number or of true, false, null run past.
func (s *scanner) word(kept *[]byte) bool {
	for s.fill() {
		letter := s.buffer[s.at]
		if letter == '+' || letter == '-' || letter == '.' ||
			letter >= '0' && letter <= '9' || letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z' {
			s.at++
			if kept != nil && len(*kept) <= wordMax {
				*kept = append(*kept, letter)
			}
			continue
		}
		return true
	}
	return false
}

// isWord says whether this is a number or one of JSON's three words.
func isWord(word []byte) bool {
	switch string(word) {
	case "true", "false", "null":
		return true
	}
	if len(word) > wordMax {
		return false
	}
	at := 0
	digits := func() bool {
		from := at
		for at < len(word) && word[at] >= '0' && word[at] <= '9' {
			at++
		}
		return at > from
	}
	if word[0] == '-' {
		at++
	}
	if at < len(word) && word[at] == '0' {
		at++
	} else if !digits() {
		return false
	}
	if at < len(word) && word[at] == '.' {
		at++
		if !digits() {
			return false
		}
	}
	if at < len(word) && (word[at] == 'e' || word[at] == 'E') {
		at++
		if at < len(word) && (word[at] == '+' || word[at] == '-') {
			at++
		}
		if !digits() {
			return false
		}
	}
	return at == len(word)
}

// text copies the rest of a string, quotes and all. It goes unit by unit (a letter or an escape), so that a cut never
// falls inside one. Whatever no strict reader would take becomes U+FFFD: bytes that are not UTF-8, half surrogate
// pairs (a host that cuts a text between the halves of an emoji writes them) and NUL.
func (s *scanner) text(maxBytes int, how cut) ([]byte, bool) {
	limit := maxBytes - 2
	var before, kept []byte // with cutHead: the last full page, and the page being filled
	var high uint16         // the first half of a pair whose second half must come next
	cutOff := false
	put := func(unit ...byte) {
		if cutOff {
			return
		}
		if len(kept)+len(unit) > limit {
			if how != cutHead {
				cutOff = true
				return
			}
			before, kept = kept, before[:0]
		}
		kept = append(kept, unit...)
	}
	putWide := func(code uint16) {
		const digits = "0123456789abcdef"
		put('\\', 'u', digits[code>>12], digits[code>>8&15], digits[code>>4&15], digits[code&15])
	}
	flush := func() {
		if high != 0 {
			high = 0
			put(0xef, 0xbf, 0xbd)
		}
	}
	for {
		if !s.fill() {
			return nil, false
		}
		letter := s.buffer[s.at]
		if letter == '\\' {
			code, plain, ok := s.escape()
			switch {
			case !ok:
				return nil, false
			case plain != 0:
				flush()
				put('\\', plain)
			case utf16.IsSurrogate(rune(code)) && code < 0xdc00:
				flush()
				high = code
			case utf16.IsSurrogate(rune(code)):
				if high == 0 {
					put(0xef, 0xbf, 0xbd)
					break
				}
				var pair [4]byte
				first := high
				high = 0
				put(pair[:utf8.EncodeRune(pair[:], utf16.DecodeRune(rune(first), rune(code)))]...)
			case code == 0:
				flush()
				put(0xef, 0xbf, 0xbd)
			default:
				flush()
				putWide(code)
			}
			continue
		}
		flush()
		switch {
		case letter == '"':
			s.at++
			if cutOff && how == cutAll {
				return nil, true
			}
			return quotedTail(before, kept, limit), true
		case letter < ' ':
			return nil, false
		case letter < utf8.RuneSelf:
			s.at++
			put(letter)
		default:
			put(s.wide()...)
		}
	}
}

// escape reads a backslash and what belongs to it: a plain letter after it, or the code of \uXXXX.
func (s *scanner) escape() (code uint16, plain byte, ok bool) {
	s.at++
	if !s.fill() {
		return 0, 0, false
	}
	letter := s.buffer[s.at]
	s.at++
	switch letter {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 0, letter, true
	case 'u':
	default:
		return 0, 0, false
	}
	for range 4 {
		if !s.fill() {
			return 0, 0, false
		}
		digit := s.buffer[s.at]
		s.at++
		switch {
		case digit >= '0' && digit <= '9':
			digit -= '0'
		case digit >= 'a' && digit <= 'f':
			digit -= 'a' - 10
		case digit >= 'A' && digit <= 'F':
			digit -= 'A' - 10
		default:
			return 0, 0, false
		}
		code = code<<4 | uint16(digit)
	}
	return code, 0, true
}

// wide reads one letter of several bytes; bytes that are none become U+FFFD one by one.
func (s *scanner) wide() []byte {
	var letter [utf8.UTFMax]byte
	size := 0
	for size < len(letter) && s.fill() {
		next := s.buffer[s.at]
		if size > 0 && utf8.RuneStart(next) {
			break
		}
		letter[size] = next
		size++
		s.at++
		if utf8.FullRune(letter[:size]) {
			break
		}
	}
	if decoded, width := utf8.DecodeRune(letter[:size]); decoded != utf8.RuneError && width == size {
		return letter[:size:size]
	}
	return []byte{0xef, 0xbf, 0xbd}
}

// quotedTail puts two pages together and drops units from the front until they fit.
func quotedTail(before, kept []byte, limit int) []byte {
	drop := len(before) + len(kept) - limit
	at := 0
	for at < len(before) && at < drop {
		switch {
		case before[at] != '\\':
			_, width := utf8.DecodeRune(before[at:])
			at += width
		case before[at+1] == 'u':
			at += 6
		default:
			at += 2
		}
	}
	quoted := make([]byte, 0, len(before)-at+len(kept)+2)
	quoted = append(quoted, '"')
	quoted = append(quoted, before[at:]...)
	quoted = append(quoted, kept...)
	return append(quoted, '"')
}

// textOf is the text that a kept JSON string means; empty for anything else.
func textOf(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	value = value[1 : len(value)-1]
	text := make([]byte, 0, len(value))
	for at := 0; at < len(value); at++ {
		if value[at] != '\\' {
			text = append(text, value[at])
			continue
		}
		at++
		switch value[at] {
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			code := rune(0)
			for _, digit := range value[at+1 : at+5] {
				switch {
				case digit <= '9':
					digit -= '0'
				default:
					digit -= 'a' - 10 // kept text has small digits only
				}
				code = code<<4 | rune(digit)
			}
			text = utf8.AppendRune(text, code)
			at += 4
		default:
			text = append(text, value[at])
		}
	}
	return string(text)
}

// appendQuoted writes a text as a JSON string.
func appendQuoted(to []byte, text string) []byte {
	const digits = "0123456789abcdef"
	to = append(to, '"')
	for _, letter := range text {
		switch {
		case letter == '"' || letter == '\\':
			to = append(to, '\\', byte(letter))
		case letter < ' ':
			to = append(to, '\\', 'u', '0', '0', digits[letter>>4], digits[letter&15])
		default:
			to = utf8.AppendRune(to, letter) // a broken byte is ranged over as U+FFFD
		}
	}
	return append(to, '"')
}
