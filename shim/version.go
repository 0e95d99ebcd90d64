// version: which binary this is.
package main

import "runtime"

func init() {
	register(&command{
		name: "version", group: "set-up", summary: "Print the version of this binary.",
		usage: "version",
		help:  helpText("", nil, `inbox version`, `inbox version --json`),
		run: func(ctx *context, args []string) int {
			if _, problem := ctx.parse(nil, args, 0); problem != nil {
				return ctx.fail(problem)
			}
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if ctx.json {
				ctx.sayJSON("version", jsonOf(map[string]string{
					"version": version, "go": runtime.Version(), "platform": platform,
				}))
				return exitDone
			}
			ctx.say("inbox %s (%s, %s)", version, runtime.Version(), platform)
			return exitDone
		},
	})
}
