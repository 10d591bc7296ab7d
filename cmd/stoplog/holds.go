package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stoplog/stoplog/internal/operator"
)

type holdsCmd struct {
	List     holdsListCmd     `cmd:"" default:"withargs" help:"List held messages and parked writes, oldest first."`
	Release  holdsReleaseCmd  `cmd:"" help:"Judge kept effects anew and send those that are allowed now."`
	Withdraw holdsWithdrawCmd `cmd:"" help:"End kept effects without sending them."`
}

func (holdsCmd) Help() string {
	return `A release is no side door: every check runs again with what is in force now, at the pace of the limits.

Examples:
  stoplog holds list
  stoplog holds release --all --dry-run
  stoplog holds release --destination slack --class message
  stoplog holds release op_01J9…
  stoplog holds withdraw op_01J9… --reason "superseded"`
}

type holdsListCmd struct{}

func (holdsListCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	holds, err := client.Holds(ctx)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return c.json(operator.List[operator.Operation]{Items: holds})
	}
	if len(holds) == 0 {
		fmt.Fprintln(c.out, "Nothing is held or parked.")
		return nil
	}
	t := &table{head: []string{"OPERATION", "KEPT AS", "WHY", "CLASS", "ACTION", "DESTINATION", "TENANT", "AGENT", "TO", "BYTES", "SINCE", "EXPIRES"}}
	for _, h := range holds {
		k := h.Hold
		if k == nil {
			k = &operator.Hold{}
		}
		t.add(h.ID, k.Verdict, k.Reason, h.Class, h.Action, h.Destination, h.Tenant, h.Agent, strconv.Itoa(h.Recipients),
			strconv.FormatInt(k.Bytes, 10), c.timeOf(h.Created), c.until(k.Expires))
	}
	c.print(t)
	return nil
}

type holdsReleaseCmd struct {
	IDs         []string `arg:"" optional:"" name:"operation" help:"Operations to release."`
	All         bool     `help:"Everything that is kept."`
	Destination string   `placeholder:"NAME" help:"Only of this destination."`
	Tenant      string   `placeholder:"ID" help:"Only of this tenant."`
	Agent       string   `placeholder:"ID" help:"Only of this agent."`
	Class       string   `enum:",message,write,model,read" default:"" placeholder:"CLASS" help:"Only of this class (message, write)."`
	Action      string   `placeholder:"NAME" help:"Only of this action."`
	Reason      string   `short:"r" placeholder:"TEXT" help:"Why; goes into the receipt."`
	DryRun      bool     `short:"n" help:"Only say how many, and to how many recipients."`
}

func (r holdsReleaseCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	s := operator.Selection{
		All: r.All, Operations: r.IDs, Destination: r.Destination, Tenant: r.Tenant, Agent: r.Agent, Class: r.Class, Action: r.Action,
	}
	if !r.All && len(r.IDs) == 0 && r.Destination == "" && r.Tenant == "" && r.Agent == "" && r.Class == "" && r.Action == "" {
		return usage(fmt.Errorf("say which: operation ids, a filter, or --all"))
	}
	got, err := client.ReleaseMany(ctx, operator.ReleaseRequest{Selection: s, Reason: r.Reason, DryRun: r.DryRun})
	if err != nil {
		return err
	}
	missing := missingIDs(r.IDs, got)
	if cmd.JSON {
		err = c.json(got)
	} else if got.Preview != nil {
		c.preview(got.Preview)
	} else {
		c.released(got)
	}
	for _, id := range missing {
		fmt.Fprintf(c.err, "stoplog: %s is not held\n", id)
	}
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return told{exitFailed}
	case got.Kept > 0:
		return told{exitRefused}
	}
	return nil
}

func missingIDs(ids []string, got operator.ReleaseAnswer) []string {
	var found []string
	if got.Preview != nil {
		found = got.Preview.Operations
	}
	for _, r := range got.Results {
		found = append(found, r.Operation)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(found, id) })
}

func (c *console) preview(p *operator.Preview) {
	fmt.Fprintf(c.out, "Would judge anew: %d (%d messages, %d others) to %d recipients. Nothing was sent.\n", p.Holds, p.Messages, p.Writes, len(p.Recipients))
	for _, d := range slices.Sorted(maps.Keys(p.Destinations)) {
		fmt.Fprintf(c.out, "  %s: %d\n", clean(d), p.Destinations[d])
	}
	for i, r := range p.Recipients {
		if i == 5 {
			fmt.Fprintf(c.out, "  … and %d more recipients\n", len(p.Recipients)-i)
			break
		}
		fmt.Fprintf(c.out, "  recipient %s: %d\n", r.Mark, r.Holds)
	}
}

func (c *console) released(a operator.ReleaseAnswer) {
	if len(a.Results) == 0 {
		fmt.Fprintln(c.out, "Nothing matches.")
		return
	}
	t := &table{head: []string{"OPERATION", "VERDICT", "REASON", "OUTCOME", "STATUS", "DIGEST"}}
	for _, r := range a.Results {
		status := ""
		if r.Status != 0 {
			status = strconv.Itoa(r.Status)
		}
		t.add(r.Operation, r.Verdict, r.Reason, r.Outcome, status, short(r.Digest))
	}
	c.print(t)
	fmt.Fprintf(c.out, "%d sent, %d stay kept.\n", a.Sent, a.Kept)
	for _, r := range a.Results {
		if !r.Sent && r.Detail != "" {
			fmt.Fprintf(c.out, "%s: %s\n", r.Operation, clean(r.Detail))
		}
	}
}

// short is a digest's beginning: enough to compare by eye.
func short(digest string) string {
	algorithm, sum, ok := strings.Cut(digest, ":")
	if !ok || len(sum) <= 16 {
		return digest
	}
	return algorithm + ":" + sum[:16] + "…"
}

type holdsWithdrawCmd struct {
	IDs    []string `arg:"" name:"operation" help:"Operations to withdraw."`
	Reason string   `short:"r" placeholder:"TEXT" help:"Why; goes into the receipt."`
}

func (w holdsWithdrawCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	out := operator.List[operator.Operation]{Items: []operator.Operation{}}
	for _, id := range w.IDs {
		op, err := client.Withdraw(ctx, id, w.Reason)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		out.Items = append(out.Items, op)
		if !cmd.JSON {
			fmt.Fprintf(c.out, "%s withdrawn; it was never sent\n", op.ID)
		}
	}
	if cmd.JSON {
		return c.json(out)
	}
	return nil
}
