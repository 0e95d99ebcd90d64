// The transcript check: did what a hook printed reach the model?
//
// A host may discard a hook's output without a word. Its transcript does not lie: a message id in a line that the model is
// told, followed by an answer of the model, was seen; an answer that was begun after the batch was printed and no such id
// before it, was not; no such answer yet, and nothing is known. Only transcripts of Claude's kind are judged (JSON lines
// with a `type`), and only what was added since the batch was printed, a bounded piece at a time: a transcript may be of any
// size, and so may one line of it.
//
// Two things make "an answer begun after" harder than it sounds. The host writes its lines a little later than it acts, and
// an answer with several tool calls is several lines, some of them written after the first tool's hook has run. So lines of
// answers known before (`current`) do not count, nor do lines before the tool's own result or the next prompt (`ready`);
// unless the host's own time stamp says that an unknown answer is later than the batch.
package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	judgeMax   = 8 << 20          // bytes of transcripts that one hook reads
	judgeMin   = 1 << 20          // it does not begin on one with fewer left: a line that tells the model a hook's words is shorter
	tailMax    = 64 << 10         // bytes before the end in which the model's current answer is looked for
	saveAfter  = 256 << 10        // bytes read without a verdict that are worth remembering
	blindFor   = 60 * time.Second // a transcript that cannot be read is given up after this
	doubtFor   = 24 * time.Hour   // and one in which nothing happens after this
	currentMax = 8                // answers remembered as begun before
)

type verdict int

const (
	verdictDoubt   verdict = iota // nothing is known yet
	verdictSettled                // each id is known to be seen or unseen
	verdictBlind                  // there is no transcript here that could be judged
)

var lineFields = []wanted{
	{"type", 64, cutAll},
	{"isSidechain", wordMax, cutAll},
	{"isApiErrorMessage", wordMax, cutAll},
	{"requestId", 256, cutAll},
	{"message.id", 256, cutAll},
	{"attachment.type", 64, cutAll},
	{"timestamp", 64, cutAll},
}

// toldAttachments are those by which a host tells the model a hook's words. It writes others that only quote them: the
// hook's output as it came, its failure, its word to the person. A kind that is not known here proves nothing, so the mail
// comes once more, marked as such; the other way round it would be lost.
var toldAttachments = []string{"hook_additional_context", "hook_blocking_error", "async_hook_response", "queued_command"}

// readable says whether a host's transcript is of the kind that is judged here.
func readable(host, path string) bool {
	if path == "" || host != "claude" && host != "auto" {
		return false
	}
	for _, other := range []string{".codex", ".gemini", ".qwen", ".copilot", "opencode"} {
		if strings.Contains(path, other) {
			return false
		}
	}
	return true
}

// openTranscript opens a plain file; a pipe or a device could keep us waiting.
func openTranscript(path string) (*os.File, int64, bool) {
	about, err := os.Stat(path)
	if err != nil || !about.Mode().IsRegular() {
		return nil, 0, false
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, false
	}
	return file, about.Size(), true
}

// mark notes where the transcript stands before a batch is printed. A file that is not there yet starts at 0.
func (b *batch) mark() {
	file, size, ok := openTranscript(b.transcript)
	if !ok {
		return
	}
	defer file.Close()
	b.offset = size
	from := max(0, size-tailMax)
	lines := newLineReader(io.NewSectionReader(file, from, size-from), b.patterns())
	if from > 0 {
		lines.next()
		lines.skip()
	}
	for lines.next() {
		line := lines.parse()
		if line.answer && line.id != "" {
			b.current = []string{line.id}
		}
		if line.tool && line.prompts(b.toolUse) {
			b.ready = true // the result was written before the hook was run
		}
		b.inside = !lines.whole
	}
}

// patterns are the texts to look for in each line.
func (b *batch) patterns() *patterns {
	return newPatterns(b.messages, b.toolUse)
}

// judge reads on in the transcript, at most so many bytes, and says what it shows. `used` is how many were read.
func (b *batch) judge(budget int64) (seen, unseen []string, is verdict, used int64) {
	file, size, ok := openTranscript(b.transcript)
	if !ok {
		return nil, nil, verdictBlind, 0
	}
	defer file.Close()
	if size < b.offset { // another file by the same name, or a shortened one
		b.offset = max(0, size-judgeMax)
		b.inside, b.ready, b.found = b.offset > 0, false, nil
	}
	start := b.offset
	length := min(size-start, budget)
	lines := newLineReader(io.NewSectionReader(file, start, length), b.patterns())
	typed, foreign := false, false
	for lines.next() {
		began := lines.position
		if b.inside {
			lines.skip()
			if lines.whole {
				b.inside = false
			}
			b.offset = start + lines.position
			continue
		}
		line := lines.parse()
		if !lines.whole {
			if began == 0 && length < size-start { // longer than one hook reads: go on in the middle of it next time
				b.note(line)
				b.offset, b.inside = start+lines.position, true
			}
			break
		}
		b.offset = start + lines.position
		if line.kind == "" {
			foreign = true
			continue
		}
		typed = true
		if !line.answer {
			b.note(line)
			continue
		}
		switch {
		case line.id != "" && slices.Contains(b.current, line.id):
		case b.isEarlier(line) || (!b.ready && len(b.found) == 0 && !b.isLater(line)):
			if line.id != "" && len(b.current) < currentMax {
				b.current = append(b.current, line.id)
			}
		default:
			for _, id := range b.messages {
				if slices.Contains(b.found, id) {
					seen = append(seen, id)
				} else {
					unseen = append(unseen, id)
				}
			}
			return seen, unseen, verdictSettled, lines.position
		}
	}
	if foreign && !typed {
		return nil, nil, verdictBlind, lines.position
	}
	if b.offset-start >= saveAfter {
		b.write()
	}
	return nil, nil, verdictDoubt, lines.position
}

// isEarlier says that an answer was given before the hand-over, though it was written down after it: hosts write late.
func (b *batch) isEarlier(answer line) bool {
	return answer.atMs != 0 && answer.atMs < b.atMs
}

// isLater says whether an answer that was not known before was begun after the batch was printed. An answer has several
// lines, so its stamp says little while it is not known which answer came before.
func (b *batch) isLater(answer line) bool {
	return answer.atMs >= b.atMs && (answer.id == "" || len(b.current) > 0)
}

// note takes in what a line that is not the model's says about the batch.
func (b *batch) note(line line) {
	if line.sidechain {
		return
	}
	// What a tool gave back may name a message because the agent asked for it. Only where the hook stopped the tool are its
	// words the tool's result.
	if line.told && (!line.result || b.before) {
		for _, id := range line.found {
			if !slices.Contains(b.found, id) {
				b.found = append(b.found, id)
			}
		}
	}
	if line.prompts(b.toolUse) {
		b.ready = true
	}
}

// line is what matters of one line of a transcript.
type line struct {
	kind      string
	answer    bool     // the model speaks, in the main conversation
	id        string   // of that answer; lines of one answer share it
	sidechain bool     // a subagent's
	told      bool     // what stands in it reaches the model
	found     []string // ids in it
	tool      bool     // the tool call's id is in it
	result    bool     // it is the result of some tool
	atMs      int64    // when the host says it was; 0 where it does not
}

// prompts says whether the model's next answer can only come after this line.
func (l line) prompts(toolUse string) bool {
	return l.kind == "user" && !l.sidechain && (toolUse == "" || l.tool || !l.result)
}

// patterns look for ids in a line as it runs past.
type patterns struct {
	ids    [][]byte
	tool   []byte
	longer int // bytes to look back at, so that nothing is missed between two pieces
	hits   []bool
	inTool bool
	result bool
}

var resultMark = []byte(`"tool_result"`)

// around is how many bytes before and after an id are needed to know that it stands alone.
const around = 8

func newPatterns(ids []string, toolUse string) *patterns {
	p := &patterns{hits: make([]bool, len(ids)), longer: len(resultMark)}
	for _, id := range ids {
		p.ids = append(p.ids, []byte(id))
		p.longer = max(p.longer, len(id))
	}
	if toolUse != "" && len(toolUse) <= 1024 {
		p.tool = appendQuoted([]byte(`"tool_use_id":`), toolUse)
		p.longer = max(p.longer, len(p.tool))
	}
	p.longer += 2 * around
	return p
}

func (p *patterns) reset() {
	clear(p.hits)
	p.inTool, p.result = false, false
}

// look searches one piece of a line; `last` says that the line ends with it.
func (p *patterns) look(text []byte, last bool) {
	for at, id := range p.ids {
		if !p.hits[at] {
			p.hits[at] = standsIn(text, id, last)
		}
	}
	p.inTool = p.inTool || p.tool != nil && bytes.Contains(text, p.tool)
	p.result = p.result || bytes.Contains(text, resultMark)
}

// standsIn finds an id that is not a part of a longer one. The text is raw JSON, so what stands before it may be an escape
// such as \n or \u003e.
func standsIn(text, id []byte, last bool) bool {
	for from := 0; ; {
		found := bytes.Index(text[from:], id)
		if found < 0 {
			return false
		}
		start := from + found
		end := start + len(id)
		from = start + 1
		if end+around > len(text) && !last {
			continue // comes again with the next piece
		}
		if start > 0 && isLetterOrDigit(text[start-1]) && !escapeEnds(text[:start]) {
			continue
		}
		if start > 1 && isIDMark(text[start-1]) && isLetterOrDigit(text[start-2]) && !escapeEnds(text[:start-1]) {
			continue
		}
		if end < len(text) && isLetterOrDigit(text[end]) {
			continue
		}
		if end+1 < len(text) && isIDMark(text[end]) && isLetterOrDigit(text[end+1]) {
			continue
		}
		return true
	}
}

// escapeEnds says whether the text ends with an escape.
func escapeEnds(text []byte) bool {
	size := len(text)
	return size >= 2 && text[size-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), text[size-1]) >= 0 ||
		size >= 6 && text[size-6] == '\\' && text[size-5] == 'u'
}

// lineReader hands out a file line by line, each as a stream of its own, in one fixed buffer.
type lineReader struct {
	input    io.Reader
	patterns *patterns
	buffer   []byte
	line     int   // where the current line, or what is kept of it, begins in the buffer
	at       int   // the next byte
	piece    int   // how far the current line goes in the buffer; at most `end`
	end      int   // how far the buffer is filled
	position int64 // bytes handed out so far
	last     bool  // the piece ends with the line
	whole    bool  // the line's end was reached
	scratch  []byte
}

func newLineReader(input io.Reader, patterns *patterns) *lineReader {
	return &lineReader{
		input:    input,
		patterns: patterns,
		buffer:   make([]byte, 64<<10),
		scratch:  make([]byte, 16<<10),
		whole:    true,
	}
}

// next goes to the next line; false when there is none. The line before must have been read to its end.
func (r *lineReader) next() bool {
	if !r.whole {
		return false
	}
	r.whole = false
	r.line, r.piece = r.at, r.at
	r.patterns.reset()
	return r.fill()
}

// fill finds the next piece of the current line; false at the file's end.
func (r *lineReader) fill() bool {
	if r.at == r.end {
		kept := min(r.patterns.longer, r.at-r.line)
		copy(r.buffer, r.buffer[r.at-kept:r.at])
		r.line, r.at = 0, kept
		read, _ := io.ReadAtLeast(r.input, r.buffer[kept:], 1)
		r.end = kept + read
		r.piece = r.at
		if read == 0 {
			return false
		}
	}
	r.piece, r.last = r.end, false
	if newline := bytes.IndexByte(r.buffer[r.at:r.end], '\n'); newline >= 0 {
		r.piece, r.last = r.at+newline, true
	}
	r.patterns.look(r.buffer[r.line:r.piece], r.last)
	return true
}

// Read is the rest of the current line, without its end.
func (r *lineReader) Read(into []byte) (int, error) {
	for r.at == r.piece {
		if r.whole {
			return 0, io.EOF
		}
		if r.last {
			r.at++
			r.position++
			r.whole, r.last = true, false
			r.piece = r.at
			return 0, io.EOF
		}
		if !r.fill() {
			return 0, io.EOF
		}
	}
	count := copy(into, r.buffer[r.at:r.piece])
	r.at += count
	r.position += int64(count)
	return count, nil
}

// skip lets the rest of the line run past.
func (r *lineReader) skip() {
	for {
		if _, err := r.Read(r.scratch); err != nil {
			return
		}
	}
}

// parse reads the whole line.
func (r *lineReader) parse() line {
	values, err := scanObject(r, lineFields, r.scratch)
	r.skip()
	read := line{tool: r.patterns.inTool, result: r.patterns.result}
	for at, hit := range r.patterns.hits {
		if hit {
			read.found = append(read.found, string(r.patterns.ids[at]))
		}
	}
	if err != nil {
		return read
	}
	read.kind = textOf(values[0])
	read.sidechain = string(values[1]) == "true"
	read.answer = read.kind == "assistant" && !read.sidechain && string(values[2]) != "true"
	if read.id = textOf(values[3]); read.id == "" {
		read.id = textOf(values[4])
	}
	if strings.Contains(read.id, ",") {
		read.id = ""
	}
	if stamp, err := time.Parse(time.RFC3339Nano, textOf(values[6])); err == nil {
		read.atMs = stamp.UnixMilli()
	}
	read.told = read.kind == "user" || read.kind == "attachment" && slices.Contains(toldAttachments, textOf(values[5]))
	return read
}
