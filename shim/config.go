// Settings: where the broker is, who we are, and where each of these was found.
//
// Flag, then environment, then `.inbox/config.json` of the worktree, then the user's own file, then the runtime file of
// a broker on this machine. A token never travels to an address that a less trusted place named: a worktree's file may
// have come with somebody's repository, and must not be able to send a person's token elsewhere.
//
// The hook reads these on every tool call: no reflection, and at most a handful of files.
package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// setting is a value and the place it came from; both are empty when nobody set it.
type setting struct {
	value string
	from  string
	trust trust
}

// trust is how far a place is believed to be the person's own word.
type trust int

const (
	trustWorktree trust = iota + 1 // may have come with a repository
	trustAccount                   // files in the account's own folders
	trustCaller                    // this command's flags and environment
)

type settings struct {
	url    setting // without a slash at the end
	token  setting // never printed
	task   setting
	caFile setting // PEM file of the authorities that an https broker is checked against

	withheld string   // why a token that was found is not used, as a sentence; empty if none was found or it is used
	broken   []string // files that could not be understood, one sentence each
}

const configMax = 1 << 16 // bytes of a configuration file; a larger one is none

var configFields = []wanted{
	{"url", 4096, cutAll},
	{"token", 4096, cutAll},
	{"task", 256, cutAll},
	{"ca_file", 4096, cutAll},
}

// source is one place where settings are found; its values are in the order of configFields.
type source struct {
	from   string
	trust  trust
	values [4]string
}

// readSettings looks in every place, from a folder on upwards. The two flags are empty when they were not given.
func readSettings(urlFlag, taskFlag, folder string) *settings {
	read := &settings{}
	places := []source{
		{"--url", trustCaller, [4]string{0: urlFlag}},
		{"--task", trustCaller, [4]string{2: taskFlag}},
		{"INBOX_URL", trustCaller, [4]string{0: os.Getenv("INBOX_URL")}},
		{"INBOX_TOKEN", trustCaller, [4]string{1: os.Getenv("INBOX_TOKEN")}},
		{"INBOX_TASK", trustCaller, [4]string{2: os.Getenv("INBOX_TASK")}},
		{"INBOX_CA_FILE", trustCaller, [4]string{3: os.Getenv("INBOX_CA_FILE")}},
	}
	add := func(path string, trust trust) bool {
		values, found, ok := readConfig(path)
		if found && !ok {
			read.broken = append(read.broken, path+" is not a JSON object of settings.")
		}
		if ok {
			places = append(places, source{path, trust, values})
		}
		return found
	}
	for up := folder; up != ""; {
		if add(filepath.Join(up, ".inbox", "config.json"), trustWorktree) {
			break
		}
		above := filepath.Dir(up)
		if above == up {
			break
		}
		up = above
	}
	if own := userConfigFile(); own != "" {
		add(own, trustAccount)
	}
	if local := runtimeFile(); local != "" {
		add(local, trustAccount)
	}
	read.url, read.task, read.caFile = first(places, 0, 0), first(places, 2, 0), first(places, 3, 0)
	if read.url.trust > trustWorktree {
		// A worktree's authority vouches for a worktree's broker. Beside an address of the person's own it could make a
		// stranger on the way look like that broker, and get its token.
		read.caFile = first(places, 3, trustAccount)
	}
	read.url.value = strings.TrimRight(read.url.value, "/")
	if read.url.value != "" {
		read.chooseToken(places)
	}
	return read
}

// first is a setting as the first place has it that is trusted this far.
func first(places []source, number int, least trust) setting {
	for _, place := range places {
		if value := place.values[number]; value != "" && place.trust >= least {
			return setting{value, place.from, place.trust}
		}
	}
	return setting{}
}

// chooseToken takes the first token that may travel to the address: one whose own place names this address, or one
// beside which no address stands and whose place is trusted no more than one that names this address. The caller's own
// token may go wherever the account's files say.
func (read *settings) chooseToken(places []source) {
	known := read.url.trust // the most trusted place that names this address
	for _, place := range places {
		if sameBroker(place.values[0], read.url.value) {
			known = max(known, place.trust)
		}
	}
	for _, place := range places {
		token := place.values[1]
		if token == "" {
			continue
		}
		own := strings.TrimRight(place.values[0], "/")
		switch {
		case own != "" && sameBroker(own, read.url.value):
		case own == "" && place.trust <= known:
		case own == "" && known >= trustAccount:
		default:
			if read.withheld == "" {
				read.withheld = "The token from " + place.from + " is not sent to " + read.url.value +
					", which " + read.url.from + " names."
			}
			continue
		}
		read.token = setting{token, place.from, place.trust}
		read.withheld = ""
		return
	}
}

// sameBroker says whether two addresses are one, whatever this machine is called in them.
func sameBroker(one, other string) bool {
	return one != "" && brokerName(one) == brokerName(other)
}

// brokerName is an address as it is compared.
func brokerName(url string) string {
	url = strings.TrimRight(url, "/")
	for _, name := range []string{"http://localhost", "http://[::1]"} {
		if rest, found := strings.CutPrefix(url, name); found && (rest == "" || rest[0] == ':' || rest[0] == '/') {
			return "http://127.0.0.1" + rest
		}
	}
	return url
}

// readConfig reads one file of settings; found is false when there is none.
func readConfig(path string) (values [4]string, found, ok bool) {
	file, err := os.Open(path)
	if err != nil {
		return values, !os.IsNotExist(err) && !errors.Is(err, syscall.ENOTDIR), false
	}
	defer file.Close()
	text := make([]byte, 2048)
	fields, err := scanObject(io.LimitReader(file, configMax), configFields, text)
	if err != nil {
		return values, true, false
	}
	for at, field := range fields {
		values[at] = textOf(field)
	}
	return values, true, true
}

// userConfigFile is the account's own file; empty where the platform has no place for it.
func userConfigFile() string {
	folder, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "inbox", "config.json")
}

// runtimeFile is what a broker on this machine leaves for its own account: its address and the machine's token.
func runtimeFile() string {
	folder := dataDir()
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, "runtime.json")
}

// dataDir is where the broker keeps its data: what platformdirs' user_data_dir("inboxd", appauthor=False) says.
func dataDir() string {
	if given := os.Getenv("INBOXD_DATA_DIR"); given != "" {
		return given
	}
	home, err := os.UserHomeDir()
	switch runtime.GOOS {
	case "windows":
		if local := os.Getenv("LOCALAPPDATA"); local != "" {
			return filepath.Join(local, "inboxd")
		}
		if err == nil {
			return filepath.Join(home, "AppData", "Local", "inboxd")
		}
		return ""
	case "darwin":
		if err == nil {
			return filepath.Join(home, "Library", "Application Support", "inboxd")
		}
		return ""
	}
	if data := os.Getenv("XDG_DATA_HOME"); strings.TrimSpace(data) != "" {
		return filepath.Join(data, "inboxd")
	}
	if err == nil {
		return filepath.Join(home, ".local", "share", "inboxd")
	}
	return ""
}
