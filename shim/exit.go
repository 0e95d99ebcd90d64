// How a command ends: every exit code, and the one way an error is said.
//
// The exit code is a function of the broker's HTTP status alone, so that a new error of the broker needs no new binary.
// It mirrors exit_code_of in service/inboxd/errors.py. `inbox hook` never comes here: it ends with 0 whatever happens.
package main

import (
	"encoding/json"
	"io"
	"strings"
	"unicode"
)

const (
	exitDone     = 0  // done
	exitNoWork   = 10 // nothing to do: no mail, no thread to claim
	exitConflict = 20 // somebody else was there first, or the id is taken
	exitInvalid  = 30 // the input or the state does not allow it
	exitUnknown  = 40 // no such task, message, thread or route
	exitBroken   = 50 // the store, the network or the broker failed
	exitDenied   = 60 // no token, or a token that may not do this
)

const exitCodes = `
exit codes
  0 done · 10 no matching work · 20 conflict · 30 invalid · 40 not found · 50 store or network · 60 denied
`

// exitOf is the exit code of a command whose request was answered with this HTTP status.
func exitOf(status int) int {
	switch {
	case status < 400:
		return exitDone
	case status == 401 || status == 403:
		return exitDenied
	case status == 404 || status == 405 || status == 410:
		return exitUnknown
	case status == 409:
		return exitConflict
	case status < 500:
		return exitInvalid
	default:
		return exitBroken
	}
}

// problem is something that went wrong, as a person or a program is told.
type problem struct {
	code         string
	message      string
	hint         string
	retryAfterMs *int64
	exit         int
}

func (p *problem) Error() string {
	if p.hint == "" {
		return p.message
	}
	return p.message + " " + p.hint
}

// fail says a problem and returns its exit code: on stderr as one line, or with --json on stdout in the broker's shape.
func (ctx *context) fail(p *problem) int {
	if ctx.json {
		type said struct {
			Code         string  `json:"code"`
			Message      string  `json:"message"`
			Hint         *string `json:"hint"`
			RetryAfterMs *int64  `json:"retry_after_ms"`
		}
		shape := struct {
			OK    bool `json:"ok"`
			Error said `json:"error"`
		}{Error: said{Code: p.code, Message: p.message, RetryAfterMs: p.retryAfterMs}}
		if p.hint != "" {
			shape.Error.Hint = &p.hint
		}
		line, _ := json.Marshal(shape)
		ctx.stdout.Write(append(line, '\n'))
		return p.exit
	}
	io.WriteString(ctx.stderr, "inbox: "+printable(p.Error())+"\n")
	return p.exit
}

// invalid is the caller's mistake, found before the broker was asked.
func (ctx *context) invalid(message, hint string) int {
	return ctx.fail(&problem{code: "INVALID_REQUEST", message: message, hint: hint, exit: exitInvalid})
}

// unreachable is a broker that gave no answer.
func unreachable(message, hint string) *problem {
	return &problem{code: "BROKER_UNREACHABLE", message: message, hint: hint, exit: exitBroken}
}

// refusal is what the broker said when it did not do what was asked.
func refusal(status int, answer []byte) *problem {
	var shape struct {
		Error struct {
			Code         string `json:"code"`
			Message      string `json:"message"`
			Hint         string `json:"hint"`
			RetryAfterMs *int64 `json:"retry_after_ms"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &shape) != nil || shape.Error.Message == "" {
		exit := exitOf(status)
		if exit == exitDone {
			exit = exitBroken
		}
		return &problem{
			code:    "NOT_INBOXD",
			message: "What answered is not an inbox broker.",
			hint:    "Look at the address with `inbox config`.",
			exit:    exit,
		}
	}
	said := shape.Error
	return &problem{said.Code, said.Message, said.Hint, said.RetryAfterMs, exitOf(status)}
}

// printable takes out of a text whatever could steer a terminal.
func printable(text string) string {
	return strings.Map(func(letter rune) rune {
		if letter != '\n' && letter != '\t' && !unicode.IsPrint(letter) {
			return -1
		}
		return letter
	}, text)
}
