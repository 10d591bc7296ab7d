package main

import (
	"context"
	"fmt"

	"github.com/stoplog/stoplog/internal/operator"
)

type budgetCmd struct {
	Show budgetShowCmd `cmd:"" default:"withargs" help:"Show every account with what is used, reserved and left."`
}

func (budgetCmd) Help() string {
	return `"Held" is reserved by calls under way; it becomes "used", or is given back, when they end.

Example:
  stoplog budget show`
}

type budgetShowCmd struct{}

func (budgetShowCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	list, err := client.Budgets(ctx)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return c.json(operator.List[operator.Budget]{Items: list})
	}
	if len(list) == 0 {
		fmt.Fprintln(c.out, "No budget has been used yet.")
		return nil
	}
	t := &table{head: []string{"BUDGET", "KEY", "LIMIT", "USED", "HELD", "LEFT", "ENDS"}}
	for _, b := range list {
		t.add(b.Budget, b.Key, amount(b.Limit, b.Unit), amount(b.Used, b.Unit), amount(b.Held, b.Unit), amount(b.Left, b.Unit), c.until(b.Ends))
	}
	c.print(t)
	return nil
}
