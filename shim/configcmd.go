// config: every setting and where it came from. Of a token only its public name is ever shown.
package main

import "os"

func init() {
	register(&command{
		name: "config", group: "set-up", summary: "Show each setting and where it came from.",
		usage: "config",
		help: helpText("Flag, then environment (INBOX_URL, INBOX_TOKEN, INBOX_TASK, INBOX_CA_FILE), then .inbox/config.json of the worktree,\n"+
			"then your own file, then what a broker on this machine left. Of the token only its name is shown.", nil,
			`inbox config`,
			`inbox config --url http://broker:8420 --json`,
			`echo '{"task": "backend"}' > .inbox/config.json`),
		run: runConfig,
	})
}

// settingRow is one setting as it is shown.
type settingRow struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
	From  *string `json:"from"`
}

// settingRows never hold a secret.
func settingRows(from *settings) []settingRow {
	row := func(name string, one setting, shown string) settingRow {
		if one.value == "" {
			return settingRow{Name: name}
		}
		return settingRow{name, &shown, &one.from}
	}
	return []settingRow{
		row("url", from.url, withoutSecrets(from.url.value)),
		row("token", from.token, tokenShown(from.token.value)),
		row("task", from.task, from.task.value),
		row("ca_file", from.caFile, from.caFile.value),
	}
}

// tokenShown is a token without its secret.
func tokenShown(token string) string {
	if name := tokenName(token); name != "" {
		return name + ".…"
	}
	return "(set, but not of the form ibx_NAMESPACE.ID.SECRET)"
}

func runConfig(ctx *context, args []string) int {
	if _, problem := ctx.parse(nil, args, 0); problem != nil {
		return ctx.fail(problem)
	}
	from := ctx.settings()
	rows := settingRows(from)
	broken := from.broken
	if broken == nil {
		broken = []string{}
	}
	exit := exitDone
	if len(broken) > 0 {
		exit = exitInvalid
	}
	files := map[string]string{"user": userConfigFile(), "broker": runtimeFile(), "spool": spoolDir()}
	if ctx.json {
		if exit != exitDone {
			return ctx.fail(&problem{code: "CONFIG_BROKEN", message: broken[0], hint: "Mend it, or take it away.", exit: exit})
		}
		ctx.sayJSON("config", jsonOf(struct {
			Settings []settingRow      `json:"settings"`
			Withheld string            `json:"withheld"`
			Files    map[string]string `json:"files"`
		}{rows, from.withheld, files}))
		return exit
	}
	cells := make([][]cell, 0, len(rows))
	for _, row := range rows {
		if row.Value == nil {
			cells = append(cells, []cell{{text: row.Name, colour: bold}, {text: "–", colour: dim}, {text: "not set", colour: dim}})
			continue
		}
		cells = append(cells, []cell{{text: row.Name, colour: bold}, {text: *row.Value}, {text: *row.From, colour: dim}})
	}
	ctx.table([]string{"SETTING", "VALUE", "FROM"}, cells)
	if from.withheld != "" {
		ctx.note("%s", from.withheld)
	}
	for _, one := range broken {
		ctx.note("%s Mend it, or take it away.", one)
	}
	if own := files["user"]; own != "" {
		if _, err := os.Stat(own); err != nil {
			ctx.note("your own file would be %s", own)
		}
	}
	return exit
}
