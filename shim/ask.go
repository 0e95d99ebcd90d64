// One question to the broker, asked the way every command asks: mail that was kept here goes first, a network that fails
// is tried again, and a refusal becomes a problem with its exit code.
//
// Trying again is harmless because every write carries an id that was minted before the first try. What has no id, or
// cannot be said twice, is asked with `once`.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

const (
	triesMax   = 3
	triesLast  = 3 * time.Second        // no new try begins later than this after the first
	tryPause   = 300 * time.Millisecond // before the second try; it doubles
	tryTimeout = 10 * time.Second       // of one try, beside what the broker was asked to wait
)

// broker is a connection to the broker for one command.
type broker struct {
	ctx     *context
	client  *client
	tries   int
	timeout time.Duration // of one try
	reached bool          // it has answered
	flushed bool          // what was kept has been sent, as far as it could be
	known   *identity     // what the broker said of our token
}

// connect reads the settings; nothing is asked yet.
func (ctx *context) connect() (*broker, *problem) {
	made, problem := ctx.client()
	if problem != nil {
		return nil, problem
	}
	return &broker{ctx: ctx, client: made, tries: triesMax, timeout: tryTimeout}, nil
}

// ask is the body of a good answer, or the problem.
func (b *broker) ask(method, path string, body any) ([]byte, *problem) {
	answer, problem, _ := b.askWaiting(method, path, body, 0)
	return answer, problem
}

// once is ask for what cannot be said twice.
func (b *broker) once(method, path string, body any) ([]byte, *problem) {
	tries := b.tries
	b.tries = 1
	defer func() { b.tries = tries }()
	return b.ask(method, path, body)
}

// askWaiting is ask for a request that lets the broker wait. away says that the broker could not be reached, or said
// itself that it cannot work at the moment: the same request may go well later.
func (b *broker) askWaiting(method, path string, body any, wait time.Duration) (answer []byte, p *problem, away bool) {
	began := time.Now()
	pause := tryPause
	for try := 1; ; try++ {
		answer, p, away = b.try(method, path, body, wait)
		if !away || try >= b.tries {
			return answer, p, away
		}
		if p.retryAfterMs != nil {
			pause = max(pause, min(time.Duration(*p.retryAfterMs)*time.Millisecond, time.Second))
		}
		if time.Since(began)+pause > triesLast+wait {
			return answer, p, away
		}
		time.Sleep(pause)
		pause *= 2
	}
}

func (b *broker) try(method, path string, body any, wait time.Duration) ([]byte, *problem, bool) {
	if !b.flushed {
		// Each try begins with it: a message of now must not overtake one that was kept before.
		if p := b.flush(lockWait); p != nil {
			return nil, p, true
		}
		b.flushed = true
	}
	status, answer, p := b.post(method, path, body, b.timeout+wait)
	if p != nil {
		return nil, p, true
	}
	if status >= 400 {
		return nil, refusal(status, answer), isAway(status)
	}
	if len(answer) > 0 && !json.Valid(answer) {
		return nil, refusal(status, nil), false
	}
	return answer, nil, false
}

// post is one request; the problem says that there was no answer.
func (b *broker) post(method, path string, body any, timeout time.Duration) (int, []byte, *problem) {
	b.client.timeout = timeout
	status, answer, err := b.client.do(method, path, body)
	if err != nil {
		if known, ok := err.(*problem); ok {
			return 0, nil, known
		}
		return 0, nil, unreachable(err.Error(), "")
	}
	if !b.reached {
		b.reached = true
		// The hooks on this machine may have given it up for a while.
		readBreaker(cacheDir(), b.client.base, time.Now()).reached()
	}
	return status, answer, nil
}

// isAway says whether a status means that the broker cannot work just now.
func isAway(status int) bool {
	return status == 502 || status == 503 || status == 504 || status == 429 || status == 408
}

// read asks and understands the answer.
func (b *broker) read(method, path string, body, into any) ([]byte, *problem) {
	answer, problem := b.ask(method, path, body)
	if problem != nil {
		return nil, problem
	}
	return answer, understand(answer, into)
}

func understand(answer []byte, into any) *problem {
	if json.Unmarshal(answer, into) != nil {
		return refusal(200, nil)
	}
	return nil
}

// identity is what the broker knows of our token.
type identity struct {
	Namespace string `json:"namespace"`
	Role      string `json:"role"`
	Task      string `json:"task"`
	TokenID   string `json:"token_id"`
}

// ownTask is whose inbox a command is about: the word given, the setting, or else what the token stands for.
func (b *broker) ownTask(given string) (string, *problem) {
	if given == "" {
		given = b.ctx.settings().task.value
	}
	if given != "" {
		return given, checkTask(given)
	}
	who, problem := b.whoami()
	if problem != nil {
		return "", problem
	}
	if who.Role == "agent" {
		return who.Task, nil
	}
	if who.Role == "user" {
		return "user", nil
	}
	return "", noTask()
}

// whoami asks once what our token stands for.
func (b *broker) whoami() (*identity, *problem) {
	if b.known == nil {
		var who identity
		if _, problem := b.read("GET", "/v1/whoami", nil, &who); problem != nil {
			return nil, problem
		}
		b.known = &who
	}
	return b.known, nil
}

func noTask() *problem {
	return invalidInput("No task is named here.", "Give --agent TASK, or set INBOX_TASK; `inbox tasks` lists them.")
}

// checkTask keeps what is no name out of a path.
func checkTask(name string) *problem {
	if isTask(name) {
		return nil
	}
	return invalidInput("`"+name+"` cannot be a task's name.", "It has letters, digits, `.`, `_` and `-`, 64 at most.")
}

func taskPath(task, verb string) string {
	path := "/v1/tasks/" + url.PathEscape(task)
	if verb != "" {
		path += "/" + verb
	}
	return path
}

// mintID is a uuid version 7: unique, and sorted by time.
func mintID() string {
	var value [16]byte
	now := uint64(time.Now().UnixMilli())
	for at := 0; at < 6; at++ {
		value[at] = byte(now >> (40 - 8*at))
	}
	rand.Read(value[6:])
	value[6] = value[6]&0x0f | 0x70
	value[8] = value[8]&0x3f | 0x80
	text := hex.EncodeToString(value[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// tokenName is the part of a token that is no secret, ibx_NAMESPACE.ID; empty for what is no token of ours.
func tokenName(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "ibx_") || len(parts[1]) != 12 || !isID(parts[0]) || !isID(parts[1]) {
		return ""
	}
	return parts[0] + "." + parts[1]
}
