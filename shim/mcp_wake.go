// How `inbox mcp` wakes an idle session of Claude Code: through the socket that the host gave it, it says that mail waits.
//
// It says no more than that, and takes none. The host shows whatever comes this way as the words of another session, "not typed by
// your user", and acknowledges nothing: mail of the person's would lose its voice, and nobody would know whether any of it arrived.
// So the mail itself comes by the hooks of the turn that this begins, or by check_inbox, whichever is first; there is one claim.
//
// Where the host holds such words back until the person allows them, that is the person's to decide.
package main

import (
	gocontext "context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	wakeGrace   = 2 * time.Second  // for the hooks of a session that is at work: they show mail by themselves
	wakeGlance  = 3 * time.Second  // between looks whether mail that was told of is still there
	wakeRemind  = 10 * time.Minute // after this, mail that is still there is told of again
	socketLimit = 5 * time.Second  // for the host to take a few words
)

// wake tells the session of mail for as long as the host runs us; it returns at once where the host gave no socket.
func (p *mcpProxy) wake() {
	socket, key := os.Getenv("CLAUDE_CODE_MESSAGING_SOCKET"), os.Getenv("CLAUDE_CODE_MESSAGING_TOKEN")
	if socket == "" || key == "" || os.Getenv("INBOX_MCP_PUSH") == "off" {
		return
	}
	task := ""
	for pause := mcpPause; task == ""; pause = min(2*pause, mcpPauseMax) {
		var given bool
		if task, given = p.ownTask(); given && task == "" {
			return // a token that stands for no task has no mail
		}
		if task == "" && !p.rest(pause) {
			return
		}
	}
	for p.whole.Err() == nil {
		if found, ok := p.pending(task, 30*time.Second); !ok || found.Pending == 0 {
			if !ok && !p.rest(wakeGlance) {
				return
			}
			continue
		}
		if !p.rest(wakeGrace) {
			return
		}
		p.tellUntilRead(socket, key, task)
	}
}

// tellUntilRead says once that mail waits, and again only when urgent mail joins it or nobody came for long.
func (p *mcpProxy) tellUntilRead(socket, key, task string) {
	var toldAt time.Time
	urgent := 0
	for {
		found, ok := p.pending(task, 0)
		if ok && found.Pending == 0 {
			return
		}
		if ok && (toldAt.IsZero() || found.Urgent > urgent || time.Since(toldAt) > wakeRemind) {
			if tellSession(socket, key, notice(found.Pending, found.Urgent)) == nil {
				toldAt, urgent = time.Now(), found.Urgent
			}
		}
		if !p.rest(wakeGlance) {
			return
		}
	}
}

func notice(pending, urgent int) string {
	text := "inboxd: " + counted(pending, "message") + " for you in your inbox"
	if urgent > 0 {
		text += ", " + strconv.Itoa(urgent) + " of them urgent"
	}
	return text + ". Unless you have been shown this mail already, call check_inbox to read it."
}

// tellSession writes two lines: who we are, by the key the host gave us, and the words.
func tellSession(socket, key, words string) error {
	conn, err := net.DialTimeout("unix", socket, socketLimit)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(socketLimit))
	lines := json.NewEncoder(conn)
	if err := lines.Encode(map[string]string{"type": "auth", "token": key}); err != nil {
		return err
	}
	message := map[string]any{"role": "user", "content": words}
	return lines.Encode(map[string]any{"type": "user", "message": message})
}

// rest waits; false: the host is gone.
func (p *mcpProxy) rest(span time.Duration) bool {
	select {
	case <-p.whole.Done():
		return false
	case <-time.After(span):
		return true
	}
}

// ownTask is whose inbox it is about; given is false while the broker does not say.
func (p *mcpProxy) ownTask() (task string, given bool) {
	p.guard.Lock()
	named := p.ctx.settings().task.value
	p.guard.Unlock()
	if named != "" {
		return named, true
	}
	var who identity
	if !p.get("/v1/whoami", tryTimeout, &who) {
		return "", false
	}
	return who.Task, true
}

func (p *mcpProxy) pending(task string, wait time.Duration) (found pending, ok bool) {
	path := taskPath(task, "pending")
	if wait > 0 {
		path += "?wait_ms=" + strconv.FormatInt(wait.Milliseconds(), 10)
	}
	ok = p.get(path, tryTimeout+wait, &found)
	return found, ok
}

func (p *mcpProxy) get(path string, within time.Duration, into any) bool {
	broker, sending, why := p.connected()
	if why != nil {
		p.forget()
		return false
	}
	asked, stop := gocontext.WithTimeout(p.whole, within)
	defer stop()
	request, err := http.NewRequestWithContext(asked, "GET", broker.base+path, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+broker.token)
	request.Header.Set("User-Agent", "inbox/"+version)
	response, err := sending.Do(request)
	if err != nil {
		p.forget()
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(into) == nil
}
