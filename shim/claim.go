// claim and renew: own a thread for a while, and keep it for longer. The fencing token of the lease stays here (leases.go).
package main

import "time"

var claimOptions = []option{
	threadOption,
	leaseOption,
	{name: "--id", value: "ID", text: "of this claim; a retry with it gets the same lease"},
}

var renewOptions = []option{
	threadOption,
	leaseOption,
	fencingOption,
	{name: "--id", value: "ID", text: "of this renewal; a retry with it changes nothing"},
}

func init() {
	register(&command{
		name: "claim", group: "threads", summary: "Own a thread for a while; nothing else grants it.",
		usage: "claim --thread ID [--lease-seconds N]",
		help: helpText("For a worker, before it does anything about a thread that `inbox fetch` showed. Of many that try, one gets it; the others\n"+
			"end at once with exit code 20 and take another. It is yours until the lease runs out: `inbox renew` keeps it, and\n"+
			"done, fail or a cancel end it. The fencing token that every later write carries is kept here for you; INBOX_SESSION\n"+
			"tells two workers of one agent on one machine apart.",
			claimOptions,
			`inbox claim --thread 0192f3a1`,
			`inbox claim --thread 0192f3a1 --agent backend --lease-seconds 1800`,
			`inbox claim --thread 0192f3a1 --json || inbox fetch`),
		run: runClaim,
	})
	register(&command{
		name: "renew", group: "threads", summary: "Keep a thread for longer.",
		usage: "renew --thread ID [--lease-seconds N]",
		help: helpText("For the worker that holds the thread, before its lease runs out: it then runs from now. `inbox update` does not renew.\n"+
			"Exit code 20: the lease is lost; stop working on it.",
			renewOptions,
			`inbox renew --thread 0192f3a1`,
			`inbox renew --thread 0192f3a1 --lease-seconds 1800`),
		run: runRenew,
	})
}

// granted is what the broker answers to both.
type granted struct {
	Thread thread `json:"thread"`
}

func runClaim(ctx *context, args []string) int {
	read, problem := ctx.parse(claimOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	thread, problem := theThread(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	leaseMs, problem := readLease(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	id, problem := newID(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	working, problem := ctx.atWork(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	var done granted
	answer, problem := working.broker.read("POST", threadPath(thread, "claim"), struct {
		Agent   string `json:"agent"`
		ClaimID string `json:"claim_id"`
		LeaseMs int64  `json:"lease_ms,omitempty"`
	}{working.agent, id, leaseMs}, &done)
	if problem != nil {
		if problem.code == "LEASE_CONFLICT" && problem.hint == "" && working.kept.ExpiresAtMs > time.Now().UnixMilli() {
			problem.hint = "You may hold it yourself: go on with `inbox update`, or keep it with `inbox renew`."
		}
		return ctx.failIn(thread, problem)
	}
	code := ctx.sayGranted("claim", "claimed", working, &done, answer)
	sweepLeases(time.Now())
	return code
}

func runRenew(ctx *context, args []string) int {
	read, problem := ctx.parse(renewOptions, args, 0)
	if problem != nil {
		return ctx.fail(problem)
	}
	leaseMs, problem := readLease(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	id, problem := newID(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	working, problem := ctx.atWork(read)
	if problem != nil {
		return ctx.fail(problem)
	}
	answer, problem := working.write("renew", struct {
		Agent        string `json:"agent"`
		FencingToken int64  `json:"fencing_token"`
		RenewID      string `json:"renew_id"`
		LeaseMs      int64  `json:"lease_ms,omitempty"`
	}{working.agent, working.token, id, leaseMs})
	if problem != nil {
		return ctx.failIn(working.thread, problem)
	}
	var done granted
	if problem := understand(answer, &done); problem != nil {
		return ctx.fail(problem)
	}
	return ctx.sayGranted("renew", "renewed", working, &done, answer)
}

// sayGranted keeps the lease before it tells of it.
func (ctx *context) sayGranted(command, verb string, working *work, done *granted, answer []byte) int {
	if done.Thread.Lease == nil || done.Thread.Lease.FencingToken < 1 {
		return ctx.fail(refusal(200, nil))
	}
	if err := working.kept.keep(done.Thread.Lease); err != nil {
		ctx.note("the fencing token %d cannot be kept here (%s): give it with --fencing-token.", done.Thread.Lease.FencingToken, err)
	}
	if ctx.json {
		ctx.sayJSON(command, answer)
		return exitDone
	}
	ctx.sayThread(verb, &done.Thread)
	return exitDone
}
