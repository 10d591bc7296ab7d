package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator"
)

type levelCmd struct {
	Get   levelGetCmd   `cmd:"" default:"withargs" help:"Show the level of every scope, with who set it and why."`
	Raise levelRaiseCmd `cmd:"" help:"Raise a level. Takes effect with the next effect."`
	Lower levelLowerCmd `cmd:"" help:"Lower a level. Only a person does this, with a reason."`
}

func (levelCmd) Help() string {
	return `L0 normal. L1 messages are held. L2 writes are parked, too. L3 full stop: reads and model calls are refused, too.
The highest level of an effect's scopes holds: fleet, tenant/ID, org/ID, agent/ID, destination/NAME.

Examples:
  stoplog level get
  stoplog level raise L2 --reason "wrong invoices are going out"
  stoplog level raise L1 --scope tenant/acme
  stoplog level lower L0 --reason "template corrected, checked by Ada"`
}

type levelGetCmd struct {
	Scope string `arg:"" optional:"" help:"Only this scope."`
}

func (g levelGetCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	levels, err := client.Levels(ctx)
	if err != nil {
		return err
	}
	if g.Scope != "" {
		_, err = stoplog.ParseScope(g.Scope)
		if err != nil {
			return usage(err)
		}
		levels = []operator.Level{levelOf(levels, g.Scope)}
	}
	if cmd.JSON {
		return c.json(operator.List[operator.Level]{Items: levels})
	}
	t := &table{head: []string{"SCOPE", "LEVEL", "EPOCH", "SINCE", "BY", "REASON"}}
	for _, l := range levels {
		m := standing(l)
		t.add(l.Scope, l.Level, epoch(l.Epoch), c.time(m.At), m.Actor, m.Reason)
	}
	c.print(t)
	return nil
}

func epoch(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// levelOf finds a scope; one that was never set is at L0.
func levelOf(levels []operator.Level, scope string) operator.Level {
	for _, l := range levels {
		if l.Scope == scope {
			return l
		}
	}
	return operator.Level{Scope: scope, Level: "L0"}
}

// standing is the decision or raise that makes the level what it is.
func standing(l operator.Level) operator.LevelMark {
	for i := len(l.Raises) - 1; i >= 0; i-- {
		if r := l.Raises[i]; r.Stands && r.Level == l.Level {
			return r
		}
	}
	if l.Decision != nil {
		return *l.Decision
	}
	return operator.LevelMark{}
}

type levelRaiseCmd struct {
	Level  string `arg:"" enum:"L1,L2,L3,l1,l2,l3" help:"L1, L2 or L3."`
	Scope  string `default:"fleet" help:"fleet, tenant/ID, org/ID, agent/ID or destination/NAME."`
	Reason string `short:"r" placeholder:"TEXT" help:"Why; goes into the receipt."`
}

func (r levelRaiseCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	done, err := client.ChangeLevel(ctx, operator.LevelChange{
		Action: "raise", Scope: r.Scope, Level: strings.ToUpper(r.Level), Reason: r.Reason,
	})
	if err != nil {
		return err
	}
	return c.levelChanged(cmd, done)
}

type levelLowerCmd struct {
	Level  string `arg:"" enum:"L0,L1,L2,l0,l1,l2" help:"L0, L1 or L2."`
	Scope  string `default:"fleet" help:"fleet, tenant/ID, org/ID, agent/ID or destination/NAME."`
	Reason string `short:"r" required:"" placeholder:"TEXT" help:"Why it is safe again; goes into the receipt."`
	Seen   uint64 `placeholder:"EPOCH" help:"Answer what 'level get' showed with this epoch; a newer raise stands. Without it, what stands now is shown and answered."`
	Yes    bool   `short:"y" help:"Do not ask."`
}

func (levelLowerCmd) Help() string {
	return `What stands is shown first, and exactly that is answered: a raise that arrives meanwhile survives.
A full stop (L3) is lowered only if the receipt log verifies.`
}

func (l levelLowerCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	seen := l.Seen
	if seen == 0 {
		levels, err := client.Levels(ctx)
		if err != nil {
			return err
		}
		now := levelOf(levels, l.Scope)
		seen = now.Epoch
		c.showStanding(now)
		if c.tty && !cmd.JSON && !l.Yes && !c.confirm(fmt.Sprintf("Lower %s from %s to %s?", now.Scope, now.Level, strings.ToUpper(l.Level))) {
			return refused(fmt.Errorf("not lowered"))
		}
	}
	done, err := client.ChangeLevel(ctx, operator.LevelChange{
		Action: "lower", Scope: l.Scope, Level: strings.ToUpper(l.Level), Reason: l.Reason, Seen: seen,
	})
	if err != nil {
		return err
	}
	err = c.levelChanged(cmd, done)
	if err == nil && done.Level != done.Asked {
		return told{exitRefused}
	}
	return err
}

// showStanding says what a lowering answers. It goes to the error stream: the output is the result.
func (c *console) showStanding(l operator.Level) {
	for _, r := range l.Raises {
		if r.Stands {
			fmt.Fprintf(c.err, "stands: %s on %s, raised by %s at %s: %s\n", r.Level, l.Scope, clean(r.Actor), c.time(r.At), clean(r.Reason))
		}
	}
	if d := l.Decision; d != nil && d.Level != "L0" {
		fmt.Fprintf(c.err, "stands: %s on %s, decided by %s at %s: %s\n", d.Level, l.Scope, clean(d.Actor), c.time(d.At), clean(d.Reason))
	}
}

func (c *console) confirm(question string) bool {
	fmt.Fprint(c.err, question+" [y/N] ")
	answer, _ := bufio.NewReader(c.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func (c *console) levelChanged(cmd *cli, d operator.LevelChanged) error {
	if cmd.JSON {
		return c.json(d)
	}
	fmt.Fprintf(c.out, "%s: %s -> %s (epoch %d)\n", d.Scope, d.From, c.paint(colorOf(d.Level), d.Level), d.Epoch)
	if d.Note != "" {
		fmt.Fprintln(c.out, "note: "+d.Note)
	}
	if d.Receipt != nil {
		fmt.Fprintln(c.out, "receipt: "+d.Receipt.String())
	}
	if d.Level == "L0" && d.From != "L0" {
		fmt.Fprintln(c.out, "What was held meanwhile stays held: stoplog holds list")
	}
	return nil
}
