package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

type receiptsCmd struct {
	Tail   receiptsTailCmd   `cmd:"" default:"withargs" help:"Print the newest receipts, and new ones as they come."`
	Show   receiptsShowCmd   `cmd:"" help:"Print a receipt, or all receipts of an operation."`
	Verify receiptsVerifyCmd `cmd:"" help:"Prove offline that no receipt was edited, removed, reordered or added."`
	Prove  receiptsProveCmd  `cmd:"" help:"Print a receipt with its inclusion proof, for somebody who has only the identity key."`
}

func (receiptsCmd) Help() string {
	return `Receipts are read from the data directory's files; no sidecar needs to run. With --server they come from a sidecar.
A receipt is named by its number in the newest log (17), by LOG@17, by the Stoplog-Receipt header that the agent got, or by its
operation.

Examples:
  stoplog receipts tail -f
  stoplog receipts tail --verdict deny --since 1h --json
  stoplog receipts show op_01J9…
  stoplog receipts verify --key "$(cat pinned.pub)"
  stoplog receipts prove 17 > proof.json && stoplog receipts verify --proof proof.json --key pinned.pub`
}

// eachReceipt calls fn for the receipts that q picks, from the sidecar or from files.
func (c *cli) eachReceipt(ctx context.Context, q operator.Query, follow bool, fn func(*receipts.Receipt) error) error {
	if c.remote() {
		client, err := c.client()
		if err != nil {
			return err
		}
		return client.Receipts(ctx, q, follow, fn)
	}
	src, err := c.files()
	if err != nil {
		return err
	}
	at, err := operator.Select(ctx, src, operator.Cursor{}, q, fn)
	q.Tail = 0
	for err == nil && follow {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
			at, err = operator.Select(ctx, src, at, q, fn)
		}
	}
	return err
}

func (c *cli) files() (operator.Receipts, error) {
	dir := c.dataDir()
	_, err := os.Stat(filepath.Join(dir, "log"))
	if err != nil {
		return nil, usage(fmt.Errorf("no receipts in %s; name the data directory with --data or $STOPLOG_DATA", dir))
	}
	return operator.Files(dir), nil
}

// findReceipts resolves what people call a receipt.
func (c *cli) findReceipts(ctx context.Context, ref string) ([]*receipts.Receipt, error) {
	if c.remote() {
		client, err := c.client()
		if err != nil {
			return nil, err
		}
		return client.Find(ctx, ref)
	}
	src, err := c.files()
	if err != nil {
		return nil, err
	}
	return operator.Find(ctx, src, ref)
}

type receiptsTailCmd struct {
	Follow      bool          `short:"f" help:"Go on with new receipts until Ctrl-C."`
	Lines       int           `short:"n" default:"20" help:"How many to begin with; 0 = all."`
	Type        string        `placeholder:"TYPE" help:"Only this type, for example hold.created; a * at the end matches the rest."`
	Verdict     string        `enum:",deny,park,hold,replay,allow" default:"" placeholder:"VERDICT" help:"Only this verdict: deny, park, hold, replay, allow."`
	Reason      string        `placeholder:"REASON" help:"Only this reason."`
	Destination string        `placeholder:"NAME" help:"Only this destination."`
	Class       string        `enum:",read,model,write,message" default:"" placeholder:"CLASS" help:"Only this class: read, model, write, message."`
	Tenant      string        `placeholder:"ID" help:"Only this tenant."`
	Agent       string        `placeholder:"ID" help:"Only this agent."`
	Operation   string        `placeholder:"ID" help:"Only this operation."`
	Since       time.Duration `placeholder:"DURATION" help:"Only what is younger, for example 15m."`
}

func (t receiptsTailCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	q := operator.Query{
		Operation: t.Operation, Type: t.Type, Destination: t.Destination, Tenant: t.Tenant, Agent: t.Agent,
		Class: t.Class, Verdict: t.Verdict, Reason: t.Reason, Tail: t.Lines,
	}
	if t.Since > 0 {
		q.Since = c.now().Add(-t.Since)
	}
	err := cmd.eachReceipt(ctx, q, t.Follow, func(r *receipts.Receipt) error {
		if cmd.JSON {
			leaf, err := r.AppendJSON(nil)
			if err != nil {
				return err
			}
			_, err = c.out.Write(append(leaf, '\n'))
			return err
		}
		return c.receiptLine(r)
	})
	if t.Follow && errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is how following ends
	}
	return err
}

// receiptLine is one receipt on one line. Columns have fixed widths, since the next receipt is not known yet.
func (c *console) receiptLine(r *receipts.Receipt) error {
	word, why := "", string(r.Reason)
	switch {
	case r.Decided:
		word = r.Verdict.String()
		if r.Observe {
			word += " (observed)"
		}
	case r.Outcome != nil:
		word = r.Outcome.Outcome.String()
	}
	if r.Outcome != nil {
		why = strings.TrimSpace(strconv.Itoa(r.Outcome.Status) + " " + r.Outcome.Error)
	}
	what := strings.TrimSpace(r.Destination + " " + r.Action)
	if what == "" || !r.Decided && r.Outcome == nil {
		what = operator.Explain(r).Effect
	}
	line := fmt.Sprintf("%6d  %s  %-14s  %s  %-20s  %s  %s", r.Seq, r.Time.In(c.zone).Format("15:04:05.000"), r.Type,
		c.paint(colorOf(word), fmt.Sprintf("%-9s", clean(word))), clean(why), clean(what), c.paint(dim, clean(string(r.Operation))))
	_, err := fmt.Fprintln(c.out, strings.TrimRight(line, " "))
	return err
}

type receiptsShowCmd struct {
	Ref string `arg:"" name:"receipt" help:"Number, LOG@NUMBER, Stoplog-Receipt header, or operation."`
}

func (s receiptsShowCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	list, err := cmd.findReceipts(ctx, s.Ref)
	if err != nil {
		return err
	}
	for i, r := range list {
		leaf, err := r.AppendJSON(nil)
		if err != nil {
			return err
		}
		if cmd.JSON {
			fmt.Fprintf(c.out, "%s\n", leaf)
			continue
		}
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		c.explanation(operator.Explain(r))
	}
	return nil
}
