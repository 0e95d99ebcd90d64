// Edits: a plan of the broker's, carried out on the files of a worktree, and taken back.
//
// This room knows no host: a plan says which value goes where, and why is the broker's business. The rules: everything is
// checked before anything is written; a file that does not parse, is read-only or lies outside is refused and nothing
// changes; files are replaced whole, through links, with the mode they had; what fails in the middle is put back. For each
// file a record is kept of how to go back exactly, and of what was put there, for the day when somebody else has changed it.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

const editMax = 8 << 20 // bytes of a file that is edited

// plan is what the broker wants changed for one host.
type plan struct {
	Host   string      `json:"host"`
	Edits  []edit      `json:"edits"`
	Trust  []trustNote `json:"trust"`
	Notice string      `json:"notice"`
}

// edit is one change of one file: as it comes in a plan, and as it is remembered.
type edit struct {
	Host      string     `json:"host,omitempty"`
	What      string     `json:"what"`
	File      string     `json:"file,omitempty"` // within its base, with /
	Base      string     `json:"base,omitempty"`
	Form      string     `json:"form"`
	Personal  bool       `json:"personal,omitempty"`
	Comments  bool       `json:"comments,omitempty"`
	Additions []addition `json:"additions,omitempty"`
	Ours      *oursRule  `json:"ours,omitempty"`
	Text      string     `json:"text,omitempty"`
	Marks     *[2]string `json:"marks,omitempty"`
	Table     string     `json:"table,omitempty"`
}

type addition struct {
	Path  []string        `json:"path"`
	How   string          `json:"how"` // set, append; put: set whatever stands there
	Value json.RawMessage `json:"value,omitempty"`
}

// oursRule says how to know what an earlier attach left where no record tells.
type oursRule struct {
	Names []string `json:"names"`
	Like  string   `json:"like"`
}

// trustNote is where a host writes down that the person trusts something.
type trustNote struct {
	What      string   `json:"what"`
	Folder    string   `json:"folder"`
	FolderEnv string   `json:"folder_env"`
	File      string   `json:"file"`
	AnyOf     []string `json:"any_of"`
	Least     int      `json:"least"`
	Hint      string   `json:"hint"`
}

// fileRecord is what was done to one file.
type fileRecord struct {
	File       string     `json:"file"`
	Base       string     `json:"base"`
	Made       bool       `json:"made,omitempty"`    // there was none
	Folders    []string   `json:"folders,omitempty"` // made for it, outermost first
	ModeBefore string     `json:"mode_before,omitempty"`
	After      string     `json:"after"`                // hash of what was written
	Steps      []step     `json:"steps"`                // how it came from what was there
	Edits      []edit     `json:"edits"`                // what it holds of ours
	Containers [][]string `json:"containers,omitempty"` // objects and lists that were made for it
	Users      []string   `json:"users,omitempty"`      // of a shared file: the worktrees that need it
}

// target is one file while it is being worked on.
type target struct {
	site   *site
	base   string
	file   string
	path   string      // where it really is
	mode   fs.FileMode // that it gets
	record *fileRecord // of an earlier attach
	edits  []edit

	exists  bool
	modeNow fs.FileMode
	current []byte

	before []byte // what the file goes back to
	made   bool   // it goes back to nothing
	after  []byte
	drop   bool        // it shall not be there
	fresh  *fileRecord // to be kept
	notes  []string
}

func (t *target) shown() string { return t.site.shown(t.path) }

func refuseFile(code, message, hint string) *problem {
	exit := exitInvalid
	if code == "NAME_TAKEN" {
		exit = exitConflict
	}
	return &problem{code: code, message: message, hint: hint, exit: exit}
}

// open finds the file and reads it.
func (t *target) open() *problem {
	root := t.site.folder(t.base)
	if !filepath.IsLocal(filepath.FromSlash(t.file)) {
		return refuseFile("FILE_OUTSIDE", "The broker's plan names "+t.file+", which is not inside of the worktree.", "It is not followed.")
	}
	path := filepath.Join(root, filepath.FromSlash(t.file))
	named := path
	// The deepest part that exists is followed through its links; what is missing is made below it.
	missing := ""
	for {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		missing = filepath.Join(filepath.Base(path), missing)
		path = filepath.Dir(path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return refuseFile("FILE_UNUSABLE", named+" is a link that leads nowhere.", "Take it away, or mend it.")
	}
	t.path = filepath.Join(real, missing)
	within, err := filepath.Rel(root, t.path)
	if err != nil || !filepath.IsLocal(within) {
		return refuseFile("FILE_OUTSIDE", named+" is a link to "+t.path+", which is outside of this worktree and may be used elsewhere too.",
			"Put a file of its own there, or leave that host out with --host.")
	}
	// A worktree's record may have come with a repository: git's own files are out of its reach, but for the one list.
	if t.base == inGit && t.file != "info/exclude" || t.base != inGit && contains(strings.Split(filepath.ToSlash(within), "/"), ".git") {
		return refuseFile("FILE_OUTSIDE", named+" is git's own.", "It is not edited.")
	}
	about, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unreadable := func(why string) *problem {
		return refuseFile("FILE_UNUSABLE", t.path+" cannot be edited: "+why+".", "Nothing was changed.")
	}
	switch {
	case err != nil:
		return unreadable(reason(err))
	case !about.Mode().IsRegular():
		return unreadable("it is not a file")
	case about.Size() > editMax:
		return unreadable("it is too large")
	}
	if t.current, err = os.ReadFile(t.path); err != nil {
		return unreadable(reason(err))
	}
	if bytes.IndexByte(t.current, 0) >= 0 {
		return unreadable("it is not a text in UTF-8")
	}
	t.exists, t.modeNow = true, about.Mode().Perm()
	return nil
}

// reason is an error without the path in front.
func reason(err error) string {
	var known *fs.PathError
	if errors.As(err, &known) {
		return known.Err.Error()
	}
	return err.Error()
}

// settle works out what the file was without us, and what it becomes.
func (t *target) settle() *problem {
	if problem := t.findBefore(); problem != nil {
		return problem
	}
	made := &draft{text: t.before}
	var containers [][]string
	for at := range t.edits {
		found, problem := t.apply(made, &t.edits[at])
		if problem != nil {
			return problem
		}
		containers = append(containers, found...)
	}
	t.after = made.text
	t.drop = len(t.edits) == 0 && t.made
	if len(t.edits) > 0 {
		t.fresh = &fileRecord{File: t.file, Base: t.base, Made: t.made, After: hashOf(t.after), Steps: made.steps, Containers: containers}
		for _, one := range t.edits {
			one.File, one.Base = "", ""
			if one.Form == "whole" || one.Form == "block" || one.Form == "toml" {
				one.Text = ""
			}
			t.fresh.Edits = append(t.fresh.Edits, one)
		}
		t.fresh.Folders = t.folders()
		if t.mode == 0 {
			t.mode = t.modeNow // of a new file: what the account gives new files
		} else if t.exists && t.modeNow != t.mode {
			t.fresh.ModeBefore = octal(t.modeNow)
		}
		if t.record != nil && t.record.ModeBefore != "" {
			t.fresh.ModeBefore = t.record.ModeBefore
		}
		if t.isInPlace() {
			kept := *t.record
			t.after, t.fresh = t.current, &kept
		}
	} else {
		t.mode = t.modeNow
		if t.record != nil && t.record.ModeBefore != "" {
			if before, err := strconv.ParseUint(t.record.ModeBefore, 8, 32); err == nil {
				t.mode = fs.FileMode(before) & fs.ModePerm
			}
		}
	}
	if t.changes() && t.exists && t.modeNow&0o200 == 0 {
		return refuseFile("FILE_READ_ONLY", t.path+" is read-only, so it stays what it is.", "Make it writable (chmod u+w), or leave that host out with --host.")
	}
	if t.changes() && t.exists && !canKeepOwner(t.path) {
		return refuseFile("FILE_UNUSABLE", t.path+" belongs to another account, and would be this one's.", "Attach as that account, or leave that host out with --host.")
	}
	return nil
}

// isInPlace says that all which is wanted stands in a file already that somebody else has changed since it was put there.
func (t *target) isInPlace() bool {
	if t.record == nil || !t.exists || hashOf(t.current) == t.record.After || !bytes.Equal(jsonOf(t.record.Edits), jsonOf(t.fresh.Edits)) {
		return false
	}
	now := &draft{text: bytes.Clone(t.current)}
	for at := range t.edits {
		one := &t.edits[at]
		var found *fault
		switch one.Form {
		case "json":
			root, problem := parseJSON(now.text, one.Comments)
			if problem != nil || root == nil {
				return false
			}
			for _, part := range one.Additions {
				node, missing := nodeAt(root, part.Path)
				if len(missing) > 0 || !holds(now.text, node, &part) {
					return false
				}
			}
		case "block":
			found = now.setBlock(*one.Marks, one.Text)
		case "toml":
			found = now.setTable(*one.Marks, one.Table, one.Text)
		default:
			return false
		}
		if found != nil || len(now.steps) > 0 {
			return false
		}
	}
	return true
}

// holds says whether a value, or a list, is or has what an addition puts there.
func holds(text []byte, node *jsonNode, part *addition) bool {
	value := plainJSON(part.Value)
	if part.How != "append" {
		return sameJSON(plainValue(text, node), value)
	}
	for _, item := range node.items {
		if node.kind == '[' && sameJSON(plainValue(text, item), value) {
			return true
		}
	}
	return false
}

func octal(mode fs.FileMode) string { return strconv.FormatUint(uint64(mode), 8) }

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// changes says whether anything has to be done.
func (t *target) changes() bool {
	if t.drop || !t.exists {
		return t.exists || !t.drop && len(t.edits) > 0
	}
	return !bytes.Equal(t.current, t.after) || t.mode != t.modeNow
}

// findBefore is the file without anything of ours.
func (t *target) findBefore() *problem {
	if t.record == nil {
		t.made = !t.exists
		var known []edit
		for _, one := range t.edits {
			if one.Ours != nil || one.Marks != nil {
				known = append(known, one) // an earlier attach may have left it
			}
		}
		return t.clean(known, nil)
	}
	if !t.exists {
		t.made = true // somebody took it away; that is no file of theirs to go back to
		return nil
	}
	if hashOf(t.current) == t.record.After {
		if before, ok := takeBack(t.current, t.record.Steps); ok {
			t.before, t.made = before, t.record.Made
			return nil
		}
	}
	// Changed since: only what is ours goes.
	for _, one := range t.record.Edits {
		if one.Form == "whole" {
			t.notes = append(t.notes, t.shown()+" was changed since it was attached.")
			break
		}
	}
	if problem := t.clean(t.record.Edits, t.record.Containers); problem != nil {
		return problem
	}
	t.made = t.record.Made && t.isEmpty()
	if t.made {
		t.before = nil
	}
	return nil
}

// isEmpty says that nothing is left in a file of ours.
func (t *target) isEmpty() bool {
	for _, one := range t.record.Edits {
		if one.Form == "json" {
			root, problem := parseJSON(t.before, one.Comments)
			if problem != nil || root == nil {
				return problem == nil
			}
			return root.kind == '{' && len(root.items) == 0 && string(bytes.Join(bytes.Fields(t.before), nil)) == "{}"
		}
	}
	return len(bytes.TrimSpace(t.before)) == 0
}

// clean takes out of what is there whatever these edits put in.
func (t *target) clean(edits []edit, containers [][]string) *problem {
	made := &draft{text: t.current}
	for at := range edits {
		one := &edits[at]
		if found := takeOut(made, one); found != nil {
			return t.refuse(made.text, one, found)
		}
	}
	for at := len(containers) - 1; at >= 0; at-- {
		for _, one := range edits {
			if one.Form == "json" {
				file := &jsonFile{made, one.Comments}
				if found := file.removeEmpty(containers[at]); found != nil {
					return t.refuse(made.text, &one, found)
				}
				break
			}
		}
	}
	t.before = made.text
	return nil
}

// takeOut removes what an edit put into a file, by what it says.
func takeOut(from *draft, one *edit) *fault {
	switch one.Form {
	case "json":
		file := &jsonFile{from, one.Comments}
		for _, part := range one.Additions {
			if problem := takeOutAddition(file, &part, one.Ours); problem != nil {
				return problem
			}
		}
	case "block", "toml":
		return from.removeBlock(*one.Marks)
	case "line":
		for end := len(from.text); end > 0; { // the last: ours is behind theirs
			at := bytes.LastIndexByte(from.text[:end-1], '\n') + 1
			if strings.TrimRight(string(from.text[at:end]), "\r\n") == one.Text {
				from.splice(at, end, "")
				break
			}
			end = at
		}
	}
	return nil
}

func takeOutAddition(file *jsonFile, part *addition, ours *oursRule) *fault {
	value := plainJSON(part.Value)
	is := func(found any) bool { return part.Value != nil && sameJSON(found, value) || ours.knows(found) }
	if part.How == "append" {
		_, problem := file.removeElements(part.Path, is)
		return problem
	}
	root, problem := file.parse()
	if problem != nil || root == nil {
		return problem
	}
	node, missing := nodeAt(root, part.Path)
	if len(missing) > 0 || !is(plainValue(file.text, node)) && part.How != "put" {
		return nil
	}
	_, problem = file.removeAt(part.Path)
	return problem
}

// rules are compiled once each.
var rules sync.Map

func (o *oursRule) matches(text string) bool {
	if known, ok := rules.Load(o.Like); ok {
		return known.(*regexp.Regexp).MatchString(text)
	}
	pattern, err := regexp.Compile(o.Like)
	if err != nil {
		return false
	}
	rules.Store(o.Like, pattern)
	return pattern.MatchString(text)
}

// knows says whether a value is one of ours: it has texts under these names, and all of them are like ours.
func (o *oursRule) knows(value any) bool {
	all, some := o.look(value)
	return all && some
}

// look says whether all, and whether some, of the named texts in a value are like ours.
func (o *oursRule) look(value any) (all, some bool) {
	all = true
	if o == nil {
		return false, false
	}
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				walk(one)
			}
		case map[string]any:
			for name, one := range value {
				text, isText := one.(string)
				if !isText || !contains(o.Names, name) {
					walk(one)
				} else if o.matches(text) {
					some = true
				} else {
					all = false
				}
			}
		}
	}
	walk(value)
	return all, some
}

// apply does an edit on a text that has nothing of ours; the containers are those that had to be made.
func (t *target) apply(to *draft, one *edit) (containers [][]string, refusal *problem) {
	var found *fault
	switch one.Form {
	case "json":
		file := &jsonFile{to, one.Comments}
		for at := range one.Additions {
			part := &one.Additions[at]
			root, problem := file.parse()
			if problem != nil {
				return nil, t.refuse(to.text, one, problem)
			}
			missing := part.Path
			var node *jsonNode
			if root != nil {
				node, missing = nodeAt(root, part.Path)
			}
			if len(missing) == 0 && part.How == "append" && node.kind == '[' && t.isByHand(file, node, part, one) {
				continue
			}
			if len(missing) == 0 && part.How == "set" && !sameJSON(plainValue(file.text, node), plainJSON(part.Value)) {
				return nil, t.taken(to.text, node, part)
			}
			for depth := len(part.Path) - len(missing) + 1; depth <= len(part.Path); depth++ {
				if depth < len(part.Path) || part.How == "append" {
					containers = append(containers, part.Path[:depth])
				}
			}
			if part.How == "append" {
				found = file.append(part.Path, part.Value)
			} else if len(missing) > 0 || part.How == "put" {
				found = file.set(part.Path, part.Value)
			}
			if found != nil {
				return nil, t.refuse(to.text, one, found)
			}
		}
	case "block":
		found = to.setBlock(*one.Marks, one.Text)
	case "toml":
		found = to.setTable(*one.Marks, one.Table, one.Text)
	case "line":
		if !endsIgnored(to.text, one.Text) {
			newline := newlineOf(to.text)
			text := one.Text + newline
			if len(to.text) > 0 && !bytes.HasSuffix(to.text, []byte("\n")) {
				text = newline + text
			}
			to.splice(len(to.text), len(to.text), text)
		}
	case "whole":
		if string(to.text) != one.Text {
			to.splice(0, len(to.text), one.Text)
		}
	default:
		return nil, refuseFile("BROKER_NEWER", "The broker's plan has an edit of the form `"+one.Form+"`, which this binary does not know.",
			"Install the newest inbox.")
	}
	if found != nil {
		return nil, t.refuse(to.text, one, found)
	}
	return containers, nil
}

// isByHand says that somebody has put what an edit wants into an entry of their own: it stays, and is not put twice.
func (t *target) isByHand(file *jsonFile, list *jsonNode, part *addition, one *edit) bool {
	for _, item := range list.items {
		value := plainValue(file.text, item)
		if sameJSON(value, plainJSON(part.Value)) {
			return false // one of the same edit's
		}
		if all, some := one.Ours.look(value); some && !all {
			t.notes = append(t.notes, t.shown()+" already runs inbox at "+part.Path[len(part.Path)-1]+", in an entry of yours: left as it is.")
			return true
		}
	}
	return false
}

func (t *target) taken(text []byte, node *jsonNode, part *addition) *problem {
	line := (&fault{at: node.from}).line(text)
	return refuseFile("NAME_TAKEN", t.path+", line "+strconv.Itoa(line)+": `"+strings.Join(part.Path, ".")+"` is there already and is not inbox's.",
		"Rename it, or leave that host out with --host.")
}

// refuse says what is wrong with a file; nothing has been written.
func (t *target) refuse(text []byte, one *edit, found *fault) *problem {
	kind := map[string]string{"json": "JSON", "toml": "TOML"}[one.Form]
	where := t.path + ", line " + strconv.Itoa(found.line(text)) + ": "
	if strings.Contains(found.words, "is defined there") {
		return refuseFile("NAME_TAKEN", where+found.words+".", "Take it out, or leave that host out with --host.")
	}
	if kind != "" && !strings.HasPrefix(found.words, "`") {
		where += "this is not the " + kind + " it should be: "
	}
	return refuseFile("FILE_MALFORMED", where+found.words+".", "Mend it first; nothing was changed.")
}

// folders are those that have to be made for the file, outermost first, with those that an earlier attach made.
func (t *target) folders() []string {
	root := t.site.folder(t.base)
	var missing []string
	if t.record != nil {
		missing = append(missing, t.record.Folders...)
	}
	for folder := filepath.Dir(t.path); folder != root && len(folder) > len(root); folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); err == nil {
			break
		}
		if within, err := filepath.Rel(root, folder); err == nil && !contains(missing, filepath.ToSlash(within)) {
			missing = append([]string{filepath.ToSlash(within)}, missing...)
		}
	}
	return missing
}
