// What people see and type: the flags of a command, tables, colours, ages, a message; and the one shape programs get.
//
// Text of other people's mail is shown with `| ` before every line, as the hooks show it, so that a body can neither fake
// a header nor steer the terminal. Nothing here speaks to the broker.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// option is one flag of a command.
type option struct {
	name    string   // with its dashes
	value   string   // what it takes, as the help says it; empty for a switch
	text    string   // what it is for
	choices []string // the only values it takes; empty for any
	many    bool     // it may be given again
}

// arguments are the words and flags of one command line.
type arguments struct {
	words []string
	given map[string][]string
	order []flagGiven // as they were typed, for flags that belong to the one before them
}

type flagGiven struct{ name, value string }

func (a *arguments) has(name string) bool     { return len(a.given[name]) > 0 }
func (a *arguments) all(name string) []string { return a.given[name] }

// get is the value of a flag; empty when it was not given.
func (a *arguments) get(name string) string {
	if values := a.given[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// looksLikeFlag tells a flag from a text that only begins with a dash: a list, a number, a rule.
func looksLikeFlag(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	letters := strings.TrimPrefix(strings.TrimPrefix(name, "-"), "-")
	return len(letters) < len(name) && isID(letters) && unicode.IsLetter(rune(letters[0])) && !strings.ContainsAny(letters, ".:")
}

// parse sorts a command line into flags and words. Flags may stand anywhere; after `--` everything is a word.
// wordsMax below zero allows any number.
func (ctx *context) parse(options []option, args []string, wordsMax int) (*arguments, *problem) {
	read := &arguments{given: map[string][]string{}}
	for at := 0; at < len(args); at++ {
		word := args[at]
		if word == "--" {
			read.words = append(read.words, args[at+1:]...)
			break
		}
		if !looksLikeFlag(word) {
			read.words = append(read.words, word)
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		known := optionNamed(options, name)
		switch {
		case known == nil:
			hint := "`" + ctx.called() + " --help` lists its flags."
			if near := nearest(name, optionNames(options)); near != "" {
				hint = "Did you mean " + near + "?"
			}
			return nil, invalidInput("`"+ctx.called()+"` has no flag "+name+".", hint)
		case known.value == "" && joined:
			return nil, invalidInput(name+" takes no value.", "Write "+name+" alone.")
		case known.value != "" && !joined:
			if at+1 == len(args) || looksLikeFlag(args[at+1]) || args[at+1] == "--" {
				return nil, invalidInput(name+" needs a value.",
					"Write "+name+" "+known.value+", or "+name+"="+known.value+" when it begins with a dash.")
			}
			at++
			value = args[at]
		}
		if len(known.choices) > 0 && !contains(known.choices, value) {
			hint := "It is one of " + strings.Join(known.choices, ", ") + "."
			return nil, invalidInput(name+" cannot be `"+value+"`.", hint)
		}
		if read.has(name) && !known.many {
			return nil, invalidInput(name+" is given twice.", "Give it once.")
		}
		read.given[name] = append(read.given[name], value)
		read.order = append(read.order, flagGiven{name, value})
	}
	if wordsMax >= 0 && len(read.words) > wordsMax {
		return nil, invalidInput("`"+ctx.called()+"` does not know what to do with `"+read.words[wordsMax]+"`.",
			"Usage: inbox "+ctx.command.usage)
	}
	return read, nil
}

// called is the command as it is typed.
func (ctx *context) called() string { return "inbox " + ctx.command.name }

func optionNamed(options []option, name string) *option {
	for at := range options {
		if options[at].name == name {
			return &options[at]
		}
	}
	return nil
}

func optionNames(options []option) []string {
	names := make([]string, len(options))
	for at, one := range options {
		names[at] = one.name
	}
	return names
}

func contains(words []string, wanted string) bool {
	for _, word := range words {
		if word == wanted {
			return true
		}
	}
	return false
}

// forHook says that this process is a hook: an agent waits for it, so what only other commands need is not made at its
// start.
func forHook() bool {
	return len(os.Args) > 1 && os.Args[1] == "hook"
}

// helpText is the rest of a command's manual: what its flags are for, and lines to copy.
func helpText(about string, options []option, examples ...string) string {
	if forHook() {
		return ""
	}
	var text strings.Builder
	if about != "" {
		text.WriteString(about + "\n\n")
	}
	if len(options) > 0 {
		lines := make([]string, len(options))
		width := 0
		for at, one := range options {
			lines[at] = one.name
			if len(one.choices) > 0 {
				lines[at] += " " + strings.Join(one.choices, "|")
			} else if one.value != "" {
				lines[at] += " " + one.value
			}
			if len(lines[at]) <= 34 {
				width = max(width, len(lines[at]))
			}
		}
		text.WriteString("flags\n")
		for at, one := range options {
			gap := strings.Repeat(" ", max(0, width-len(lines[at]))+2)
			if len(lines[at]) > width {
				gap = "\n" + strings.Repeat(" ", width+4)
			}
			text.WriteString("  " + lines[at] + gap + one.text + "\n")
		}
		text.WriteString("\n")
	}
	text.WriteString("examples\n")
	for _, line := range examples {
		text.WriteString("  " + line + "\n")
	}
	return text.String()
}

// invalidInput is the caller's mistake, found before the broker was asked.
func invalidInput(message, hint string) *problem {
	return &problem{code: "INVALID_REQUEST", message: message, hint: hint, exit: exitInvalid}
}

// wholeNumber reads a flag that counts something; absent is 0.
func wholeNumber(read *arguments, name string, least, most int) (int, *problem) {
	if !read.has(name) {
		return 0, nil
	}
	number, err := strconv.Atoi(read.get(name))
	if err != nil || number < least || number > most {
		return 0, invalidInput(name+" cannot be `"+read.get(name)+"`.",
			fmt.Sprintf("It is a whole number from %d to %d.", least, most))
	}
	return number, nil
}

// spanMax is the longest time the broker knows.
const spanMax = 365 * 24 * time.Hour

// readSpan reads a length of time: 500ms, 90s, 10m, 2h, 1d; a bare number is in the unit given, if one is.
func readSpan(name, text, unit string) (time.Duration, *problem) {
	units := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute,
		"h": time.Hour, "d": 24 * time.Hour}
	hint := "Write a time with its unit: 30s, 10m, 2h, 1d."
	if unit == "s" {
		hint = "Write seconds, or a time with its unit: 90, 30s, 10m, 2h, 1d."
	}
	digits := strings.TrimRight(text, "mshd")
	if given := text[len(digits):]; given != "" {
		unit = given
	}
	number, err := strconv.ParseFloat(digits, 64)
	if err != nil || units[unit] == 0 || strings.Trim(digits, "0123456789.") != "" {
		return 0, invalidInput(name+" cannot be `"+text+"`.", hint)
	}
	span := number * float64(units[unit])
	if span > float64(spanMax) {
		return 0, invalidInput(name+" cannot be `"+text+"`.", "A year is the longest.")
	}
	return time.Duration(span), nil
}

// The one shape of an answer for programs.

// sayJSON prints {"ok": true, "command": …} and then the fields of a JSON object, in its order.
func (ctx *context) sayJSON(command string, object []byte) {
	var line bytes.Buffer
	line.WriteString(`{"ok":true,"command":`)
	line.Write(jsonOf(command))
	decoder := json.NewDecoder(bytes.NewReader(object))
	if start, err := decoder.Token(); err == nil && start == json.Delim('{') {
		for decoder.More() {
			name, err := decoder.Token()
			var value json.RawMessage
			if err != nil || decoder.Decode(&value) != nil {
				break
			}
			if name != "ok" && name != "command" {
				line.WriteByte(',')
				line.Write(jsonOf(name))
				line.WriteByte(':')
				line.Write(value)
			}
		}
	}
	line.WriteString("}\n")
	ctx.stdout.Write(line.Bytes())
}

// jsonOf writes a value as one line of JSON, with < and > as they are.
func jsonOf(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return []byte("null")
	}
	return bytes.TrimRight(text.Bytes(), "\n")
}

// say prints one line.
func (ctx *context) say(format string, values ...any) {
	fmt.Fprintf(ctx.stdout, format+"\n", values...)
}

// note tells a person something beside the answer.
func (ctx *context) note(format string, values ...any) {
	io.WriteString(ctx.stderr, "inbox: "+printable(fmt.Sprintf(format, values...))+"\n")
}

// Colours: only for a terminal, and never against NO_COLOR.

const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint says how this stream takes colours.
func (ctx *context) paint() func(colour, text string) string {
	if !takesColour(ctx.stdout) {
		return func(_, text string) string { return text }
	}
	return func(colour, text string) string {
		if colour == plain || text == "" {
			return text
		}
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
}

func takesColour(stream any) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(stream)
}

// isTerminal takes any character device for one; the others are not worth a system call of their own.
func isTerminal(stream any) bool {
	if watched, ok := stream.(*sureWriter); ok {
		stream = watched.to
	}
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	about, err := file.Stat()
	return err == nil && about.Mode()&os.ModeCharDevice != 0
}

// sureWriter remembers whether what was printed arrived: for what counts as delivered once it is printed.
type sureWriter struct {
	to  io.Writer
	err error
}

func (w *sureWriter) Write(text []byte) (int, error) {
	count, err := w.to.Write(text)
	if w.err == nil {
		w.err = err
	}
	return count, err
}

func priorityColour(priority string) string {
	switch priority {
	case "urgent":
		return red
	case "high":
		return yellow
	case "low":
		return dim
	}
	return plain
}

func stateColour(state string) string {
	switch state {
	case "active", "seen", "delivered":
		return green
	case "waiting", "in_flight":
		return yellow
	case "dead":
		return red
	case "queued":
		return cyan
	}
	return dim
}

// Tables.

type cell struct {
	text   string
	colour string
	right  bool // a number
}

// widthMax is where a row is cut on a terminal that does not say how wide it is.
const widthMax = 120

// table prints aligned columns. On a terminal the last column is cut where the line ends; elsewhere nothing is cut.
func (ctx *context) table(heads []string, rows [][]cell) {
	paint := ctx.paint()
	widths := make([]int, len(heads))
	for at, head := range heads {
		widths[at] = columns(head)
	}
	for _, row := range rows {
		for at := range row {
			row[at].text = oneLine(row[at].text)
			widths[at] = max(widths[at], columns(row[at].text))
		}
	}
	room := 0 // none: not a terminal
	if isTerminal(ctx.stdout) {
		room = widthMax
		if told, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && told > 20 {
			room = told
		}
		for _, width := range widths[:len(widths)-1] {
			room -= width + 2
		}
		room = max(room, 10)
	}
	write := func(row []cell) {
		var line strings.Builder
		for at, one := range row {
			last := at == len(row)-1
			text := one.text
			if last && room > 0 {
				text = cutTo(text, room)
			}
			gap := strings.Repeat(" ", max(0, widths[at]-columns(text)))
			if one.right {
				line.WriteString(gap + paint(one.colour, text))
			} else if last {
				line.WriteString(paint(one.colour, text))
			} else {
				line.WriteString(paint(one.colour, text) + gap)
			}
			if !last {
				line.WriteString("  ")
			}
		}
		io.WriteString(ctx.stdout, strings.TrimRight(line.String(), " ")+"\n")
	}
	head := make([]cell, len(heads))
	for at, text := range heads {
		head[at] = cell{text: text, colour: dim}
		if len(rows) > 0 {
			head[at].right = rows[0][at].right
		}
	}
	write(head)
	for _, row := range rows {
		write(row)
	}
}

// columns is how wide a text stands on a terminal.
func columns(text string) int {
	width := 0
	for _, letter := range text {
		switch {
		case unicode.In(letter, unicode.Mn, unicode.Me, unicode.Cf):
		case letter >= 0x1100 && letter <= 0x115f, letter >= 0x2e80 && letter <= 0xa4cf, letter >= 0xac00 && letter <= 0xd7a3,
			letter >= 0xf900 && letter <= 0xfaff, letter >= 0xfe30 && letter <= 0xfe6f, letter >= 0xff00 && letter <= 0xff60,
			letter >= 0xffe0 && letter <= 0xffe6, letter >= 0x1f300 && letter <= 0x1faff, letter >= 0x20000 && letter <= 0x3fffd:
			width += 2
		default:
			width++
		}
	}
	return width
}

// cutTo shortens a text to a width, with a sign that it was.
func cutTo(text string, room int) string {
	if columns(text) <= room {
		return text
	}
	width := 0
	for at, letter := range text {
		width += columns(string(letter))
		if width > room-1 {
			return strings.TrimRight(text[:at], " ") + "…"
		}
	}
	return text
}

// oneLine is a text made fit for one cell.
func oneLine(text string) string {
	return strings.Join(strings.Fields(printable(text)), " ")
}

// age is how long ago a time was, roughly.
func age(atMs int64) string {
	passed := time.Since(time.UnixMilli(atMs))
	if passed < time.Second {
		return "now"
	}
	return rough(passed)
}

// rough is a length of time in its largest unit.
func rough(passed time.Duration) string {
	switch {
	case passed < time.Minute:
		return fmt.Sprintf("%ds", passed/time.Second)
	case passed < time.Hour:
		return fmt.Sprintf("%dm", passed/time.Minute)
	case passed < 48*time.Hour:
		return fmt.Sprintf("%dh", passed/time.Hour)
	}
	return fmt.Sprintf("%dd", passed/(24*time.Hour))
}

// ago is the same as a phrase.
func ago(atMs int64) string {
	if said := age(atMs); said != "now" {
		return said + " ago"
	}
	return "now"
}

// moment is a time as this machine's clock shows it.
func moment(atMs int64) string {
	return time.UnixMilli(atMs).Local().Format("2006-01-02 15:04:05")
}

// counted is a number and its noun.
func counted(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(number) + " " + noun + "s"
}

// message is a message as the broker shows it.
type message struct {
	MessageID        string          `json:"message_id"`
	Task             string          `json:"task"`
	Sender           string          `json:"sender"`
	Kind             string          `json:"kind"`
	Subject          string          `json:"subject"`
	Summary          string          `json:"summary"`
	Body             string          `json:"body"`
	Payload          json.RawMessage `json:"payload"`
	Priority         string          `json:"priority"`
	ThreadID         string          `json:"thread_id"`
	ReplyTo          string          `json:"reply_to"`
	AwaitingResponse bool            `json:"awaiting_response"`
	Topic            string          `json:"topic"`
	Artifacts        []artifact      `json:"artifacts"`
	N                int64           `json:"n"`
	State            string          `json:"state"`
	Attempts         int             `json:"attempts"`
	CreatedAtMs      int64           `json:"created_at_ms"`
	ExpiresAtMs      int64           `json:"expires_at_ms"`
	DeliveredTo      string          `json:"delivered_to"`
	HeldBy           string          `json:"held_by"`
	Reason           string          `json:"reason"`
}

type artifact struct {
	Path     string          `json:"path"`
	Kind     string          `json:"kind,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// title is what a message is about, in one line.
func (m *message) title() string {
	for _, text := range []string{m.Subject, m.Summary, m.Body} {
		for _, line := range strings.Split(text, "\n") {
			if line = oneLine(line); line != "" {
				return line
			}
		}
	}
	if len(m.Artifacts) > 0 {
		return "artifact " + oneLine(m.Artifacts[0].Path)
	}
	return "payload " + oneLine(string(m.Payload))
}

// from is whose words these are, as the broker verified it.
func (m *message) from() string {
	return oneLine(strings.TrimPrefix(m.Sender, "task:"))
}

// answerTo is the inbox an answer goes to; empty when the sender has none.
func (m *message) answerTo() string {
	if m.Sender == "user" {
		return "user"
	}
	task, isTask := strings.CutPrefix(m.Sender, "task:")
	if !isTask {
		return ""
	}
	return task
}

// sayContent prints what a message says, each line of it marked as not ours.
func (ctx *context) sayContent(m *message) {
	paint := ctx.paint()
	bar := paint(dim, "|") + " "
	quote := func(label, text string) {
		if text == "" {
			return
		}
		if label != "" {
			ctx.say("%s", paint(dim, label))
		}
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
		for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			ctx.say("%s", strings.TrimRight(bar+printable(line), " "))
		}
	}
	if m.Subject != "" {
		ctx.say("%s%s", bar, paint(bold, oneLine(m.Subject)))
	}
	quote("", m.Body)
	quote("summary", m.Summary)
	if len(m.Payload) > 0 && string(m.Payload) != "null" {
		quote("payload", string(m.Payload))
	}
	for _, one := range m.Artifacts {
		line := one.Path
		if one.Kind != "" {
			line += " (" + one.Kind + ")"
		}
		if len(one.Metadata) > 0 && string(one.Metadata) != "null" {
			line += " " + string(one.Metadata)
		}
		quote("artifact", oneLine(line))
	}
}
