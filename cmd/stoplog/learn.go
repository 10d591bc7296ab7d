package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

type learnCmd struct {
	Since time.Duration `default:"0" placeholder:"DURATION" help:"Only what happened in this time, for example 1h (default: everything)."`
}

func (learnCmd) Help() string {
	return `Reads the receipts for destinations that are not configured and operations that no profile names, and prints the lines
that would add them. It is a draft: read it before you use it.

Examples:
  stoplog up --observe &     # let the agents work for a while, then
  stoplog learn > learned.yaml
  stoplog check learned.yaml`
}

func (l learnCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	q := operator.Query{}
	if l.Since > 0 {
		q.Since = c.now().Add(-l.Since)
	}
	counts := map[configs.Refused]int{}
	var order []configs.Refused
	err := cmd.eachReceipt(ctx, q, false, func(r *receipts.Receipt) error {
		k, ok := learned(r)
		if !ok {
			return nil
		}
		if counts[k] == 0 {
			order = append(order, k)
		}
		counts[k]++
		return nil
	})
	if err != nil {
		return err
	}
	for i := range order {
		order[i].Count = counts[order[i]]
	}
	text := configs.Suggest(order)
	if cmd.JSON {
		list := make([]map[string]any, 0, len(order))
		for _, r := range order {
			list = append(list, map[string]any{"host": r.Host, "destination": r.Destination, "method": r.Method, "path": r.Path, "count": r.Count})
		}
		return c.json(map[string]any{"items": list, "yaml": text})
	}
	if len(order) == 0 {
		fmt.Fprintln(c.err, "Nothing was denied as unknown.")
		return nil
	}
	for _, r := range order {
		if r.Destination == "" && !strings.Contains(r.Host, ".") {
			fmt.Fprintf(c.out, "# %q was called %d times, but only its name is known: put its real url below, or correct the agent's base URL.\n", r.Host, r.Count)
		}
	}
	_, err = fmt.Fprint(c.out, text)
	return err
}

// learned is what a receipt teaches, if anything. The proxy notes what it could read of an unknown request.
func learned(r *receipts.Receipt) (configs.Refused, bool) {
	switch {
	case r.Reason == stoplog.ReasonUnknownDestination && r.Note["destination"] != "":
		return configs.Refused{Host: r.Note["destination"], Method: r.Note["method"], Path: r.Note["path"]}, true
	case r.Reason == stoplog.ReasonUnclassified && r.Destination != "":
		method, path := r.Note["method"], r.Note["path"]
		if method == "" {
			method, path = r.Method, r.Path
		}
		return configs.Refused{Destination: r.Destination, Method: method, Path: path, ContentType: r.Request.Media}, true
	}
	return configs.Refused{}, false
}
