package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

type receiptsVerifyCmd struct {
	Key   string `placeholder:"KEY|FILE" help:"Pinned identity key, or a file with it (default: identity.pub of the data directory)."`
	Proof string `placeholder:"FILE" type:"existingfile" help:"Verify the output of 'receipts prove' instead of a data directory."`
}

func (v receiptsVerifyCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	key, pinned, err := v.key(cmd)
	if err != nil {
		return err
	}
	if v.Proof != "" {
		return v.proof(cmd, c, key)
	}
	rep, err := receipts.Verify(ctx, cmd.dataDir(), key)
	if err != nil {
		return unverified(err)
	}
	bad := rep.Err() != nil
	if cmd.JSON {
		err = c.json(map[string]any{"ok": !bad, "pinned": pinned, "logs": rep.Logs, "records": rep.Records, "findings": rep.Findings})
		if err != nil {
			return err
		}
	} else {
		c.report(rep, bad, pinned)
	}
	if bad {
		return told{exitUnverified}
	}
	return nil
}

func (c *console) report(rep *receipts.Report, bad, pinned bool) {
	for _, f := range rep.Findings {
		color, word := red, "FAULT  "
		if f.Notice {
			color, word = dim, "notice "
		}
		fmt.Fprintf(c.out, "%s %s\n", c.paint(color, word), clean(f.String()))
	}
	if bad {
		fmt.Fprintf(c.out, "%s: the receipts are not what was written (%d logs, %d records)\n", c.paint(red, "NOT VERIFIED"), rep.Logs, rep.Records)
		return
	}
	fmt.Fprintf(c.out, "%s: %d records in %d logs are whole, in order and signed\n", c.paint(green, "verified"), rep.Records, rep.Logs)
	if !pinned {
		fmt.Fprintln(c.out, "The key came from the data directory itself. Keep identity.pub elsewhere and pass it with --key: whoever can write here could replace both.")
	}
}

// key is the identity key: given as text, as a file, or found beside the log.
func (v receiptsVerifyCmd) key(cmd *cli) (key string, pinned bool, err error) {
	path := v.Key
	if strings.Count(v.Key, "+") >= 2 { // a verifier key is NAME+HASH+KEY
		return v.Key, true, nil
	}
	if path == "" {
		path = filepath.Join(cmd.dataDir(), "identity.pub")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", false, usage(fmt.Errorf("identity key: %w", err))
	}
	return strings.TrimSpace(string(b)), v.Key != "", nil
}

// bundle is a receipt with its proof.
type bundle struct {
	Leaf  string `json:"leaf"`  // the receipt's exact bytes, which are what is hashed
	Proof string `json:"proof"` // c2sp.org/tlog-proof@v1
}

func (v receiptsVerifyCmd) proof(cmd *cli, c *console, key string) error {
	b, err := os.ReadFile(v.Proof)
	if err != nil {
		return usage(err)
	}
	var x bundle
	err = json.Unmarshal(b, &x)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", v.Proof, err))
	}
	r, err := receipts.VerifyProof(key, []byte(x.Leaf), []byte(x.Proof))
	if err != nil {
		if cmd.JSON {
			_ = c.json(map[string]any{"ok": false, "error": err.Error()})
			return told{exitUnverified}
		}
		return unverified(err)
	}
	if cmd.JSON {
		return c.json(map[string]any{"ok": true, "receipt": operator.Explain(r)})
	}
	fmt.Fprintf(c.out, "%s: receipt %s@%d is in the log, exactly so\n", c.paint(green, "verified"), clean(r.Log), r.Seq)
	c.explanation(operator.Explain(r))
	return nil
}

type receiptsProveCmd struct {
	Ref string `arg:"" name:"receipt" help:"Number, LOG@NUMBER or Stoplog-Receipt header."`
}

func (p receiptsProveCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	list, err := cmd.findReceipts(ctx, p.Ref)
	if err != nil {
		return err
	}
	// Of an operation it is the newest receipt that says how it ended.
	r := list[len(list)-1]
	leaf, text, err := receipts.OpenReader(cmd.dataDir()).Prove(ctx, r.Log, r.Seq)
	if err != nil {
		return err
	}
	return c.json(bundle{Leaf: string(leaf), Proof: string(text)})
}
