package main

import (
	"context"
	"fmt"

	"github.com/stoplog/stoplog/internal/operator"
)

type explainCmd struct {
	Ref string `arg:"" name:"receipt" help:"Number, LOG@NUMBER, Stoplog-Receipt header, or operation."`
}

func (explainCmd) Help() string {
	return `Works on the data directory's files; no sidecar needs to run. Every reason is also in docs/reasons.md.

Examples:
  stoplog explain 17
  stoplog explain op_01J9…
  stoplog explain '"stoplog.local/0001";seq=17'`
}

func (e explainCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	list, err := cmd.findReceipts(ctx, e.Ref)
	if err != nil {
		return err
	}
	out := operator.List[operator.Explanation]{}
	for _, r := range list {
		out.Items = append(out.Items, operator.Explain(r))
	}
	if cmd.JSON {
		return c.json(out)
	}
	for i, x := range out.Items {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		c.explanation(x)
	}
	return nil
}

func (c *console) explanation(x operator.Explanation) {
	say := func(label, text string) {
		if text != "" {
			fmt.Fprintf(c.out, "%-10s %s\n", label, clean(text))
		}
	}
	fmt.Fprintf(c.out, "%s  %s  %s\n", c.paint(bold, clean(x.Receipt.String())), c.time(x.Time), x.Type)
	say("effect", x.Effect)
	say("operation", x.Operation)
	if x.Verdict != "" {
		verdict := c.paint(colorOf(x.Verdict), x.Verdict)
		if !x.Enforced {
			verdict += " (observed, not enforced)"
		}
		fmt.Fprintf(c.out, "%-10s %s: %s\n", "decision", verdict, clean(x.Title))
		say("reason", x.Reason)
		say("decided by", x.Decider)
		say("why", x.Why)
	}
	say("happened", x.Happened)
	for _, list := range [...]struct {
		label string
		lines []string
	}{{"facts", x.Facts}, {"judges", x.Judges}, {"to change", x.Change}} {
		for i, l := range list.lines {
			label := list.label
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(c.out, "%-10s %s\n", label, clean(l))
		}
	}
}
