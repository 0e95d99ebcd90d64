// login: turn a one-time code into a token of the person's own, in the account's file.
//
// The code is good once and for a short while, so it may stand on a command line; the token never does. It is stored
// together with the address it is for, and goes nowhere else.
package main

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"strings"
)

func init() {
	register(&command{
		name: "login", group: "set-up", summary: "Get a token of your own with a one-time code.",
		usage: "login CODE",
		help: helpText("`inboxd serve` prints a code on the terminal where it was started, and `inboxd login-code` prints a new one. The token is\n"+
			"stored in your own configuration file, readable by your account alone: whoever can read that file, an agent that\n"+
			"runs under your account included, can use it. The login in a browser is the stronger voice.", nil,
			`inbox login 5f1c09a7d2e84b3360fa`,
			`inbox login - < code.txt`,
			`inbox login 5f1c09a7d2e84b3360fa --url https://broker.example:8420`),
		run: runLogin,
	})
}

func runLogin(ctx *context, args []string) int {
	read, problem := ctx.parse(nil, args, 1)
	if problem != nil {
		return ctx.fail(problem)
	}
	given := ""
	if len(read.words) > 0 {
		given = strings.TrimSpace(read.words[0])
	}
	if given == "-" {
		given, _ = bufio.NewReader(ctx.stdin).ReadString('\n')
		given = strings.TrimSpace(given)
	}
	code, address := codeOf(given)
	if code == "" {
		return ctx.invalid("No code is given.", "`inboxd serve` prints one where it was started, `inboxd login-code` a new one: inbox login CODE.")
	}
	if address != "" && ctx.url == "" {
		ctx.url, ctx.found = address, nil
	}
	from := *ctx.settings()
	if from.url.trust == trustWorktree {
		return ctx.fail(&problemOfLogin)
	}
	from.token, from.withheld = setting{}, "" // who logs in has none yet, and an old one is nobody's business here
	asking, problem := newClient(&from)
	if problem != nil {
		return ctx.fail(problem)
	}
	broker := &broker{ctx: ctx, client: asking, tries: 1, timeout: tryTimeout, flushed: true}
	var made struct {
		Token     string `json:"token"`
		Role      string `json:"role"`
		Namespace string `json:"namespace"`
	}
	answer, problem := broker.once("POST", "/v1/login", map[string]string{"code": code})
	if problem != nil {
		if problem.hint == "" {
			problem.hint = "A code is good once, and not for long: `inboxd login-code` prints a new one."
		}
		return ctx.fail(problem)
	}
	if json.Unmarshal(answer, &made) != nil || made.Token == "" {
		return ctx.fail(refusal(200, nil))
	}
	path, problem := storeToken(from.url.value, made.Token)
	if problem != nil {
		return ctx.fail(problem)
	}
	name := tokenName(made.Token)
	if made.Namespace == "" {
		made.Namespace, _, _ = strings.Cut(strings.TrimPrefix(name, "ibx_"), ".")
	}
	if ctx.json {
		ctx.sayJSON("login", jsonOf(map[string]string{
			"role": made.Role, "namespace": made.Namespace, "token": name, "file": path, "url": from.url.value,
		}))
	} else {
		ctx.say("Logged in at %s as %s, in the namespace %s.", withoutSecrets(from.url.value), made.Role, made.Namespace)
		ctx.say("The token is in %s, readable by your account alone.", path)
		ctx.say("Whoever can read that file, an agent that runs under your account included, can use it.")
	}
	// What is configured elsewhere may win over the file.
	now := readSettings(ctx.url, ctx.task, workingDir())
	if now.token.value != made.Token && now.token.value != "" {
		ctx.note("%s has a token too, and it is used before this one.", now.token.from)
	}
	return exitDone
}

var problemOfLogin = problem{code: "ADDRESS_UNTRUSTED", exit: exitDenied,
	message: "The broker's address comes from a file of this worktree, which may have come with a repository.",
	hint:    "Name it yourself: inbox login CODE --url URL."}

// codeOf takes a code, or a link with one: …?code=CODE or …#code=CODE.
func codeOf(given string) (code, address string) {
	link, err := url.Parse(given)
	if err != nil || link.Scheme != "http" && link.Scheme != "https" || link.Host == "" {
		return given, ""
	}
	code = link.Query().Get("code")
	if code == "" {
		if inside, err := url.ParseQuery(link.Fragment); err == nil {
			code = inside.Get("code")
		}
	}
	return code, link.Scheme + "://" + link.Host
}

// storeToken puts address and token into the account's own file and leaves what else is there.
func storeToken(address, token string) (string, *problem) {
	path := userConfigFile()
	broken := func(why string) *problem {
		return &problem{code: "CONFIG_BROKEN", message: "The token cannot be stored in " + path + ": " + why + ".",
			hint: "Mend the file and log in with a new code.", exit: exitBroken}
	}
	if path == "" {
		return "", broken("there is no folder for it; set HOME or XDG_CONFIG_HOME")
	}
	fields := map[string]json.RawMessage{}
	if text, err := os.ReadFile(path); err == nil {
		if json.Unmarshal(text, &fields) != nil || fields == nil {
			return "", broken("it is there and is not a JSON object")
		}
	} else if !os.IsNotExist(err) {
		return "", broken(err.Error())
	}
	fields["url"], fields["token"] = jsonOf(address), jsonOf(token)
	text, _ := json.MarshalIndent(fields, "", "  ")
	if err := writeDurably(path, append(text, '\n')); err != nil {
		return "", broken(err.Error())
	}
	return path, nil
}

// withoutSecrets is an address as it may be shown: a password in it is nobody's business.
func withoutSecrets(address string) string {
	if parsed, err := url.Parse(address); err == nil && parsed.User != nil {
		return parsed.Redacted()
	}
	return address
}

func workingDir() string {
	here, _ := os.Getwd()
	return here
}
