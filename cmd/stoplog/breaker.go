package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoplog/stoplog/internal/operator"
)

type breakerCmd struct {
	List  breakerListCmd  `cmd:"" default:"withargs" help:"List all breakers."`
	Force breakerForceCmd `cmd:"" help:"Open a breaker, or start its probing now."`
}

func (breakerCmd) Help() string {
	return `Closed: traffic flows. Open: the destination is failing and is left alone. Half-open: a few probes test it.
A breaker closes by successful probes only; nobody closes one by hand.

Examples:
  stoplog breaker list
  stoplog breaker force slack open --reason "vendor incident"
  stoplog breaker force slack half-open --reason "vendor says resolved"`
}

type breakerListCmd struct{}

func (breakerListCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	list, err := client.Breakers(ctx)
	if err != nil {
		return err
	}
	return c.breakers(cmd, list)
}

func (c *console) breakers(cmd *cli, list []operator.Breaker) error {
	if cmd.JSON {
		return c.json(operator.List[operator.Breaker]{Items: list})
	}
	if len(list) == 0 {
		fmt.Fprintln(c.out, "No breaker has seen traffic yet.")
		return nil
	}
	t := &table{head: []string{"DESTINATION", "CLASS", "STATE", "SINCE", "PROBING", "TRIPS", "GOOD", "BAD", "RAMP"}}
	for _, b := range list {
		ramp := ""
		if b.Ramp > 0 {
			ramp = strconv.FormatFloat(b.Ramp, 'f', 1, 64) + "/s"
		}
		t.add(b.Destination, b.Class, b.State, c.timeOf(b.Since), c.until(b.RetryAt), strconv.Itoa(b.Trips),
			strconv.FormatInt(b.Successes, 10), strconv.FormatInt(b.Failures, 10), ramp)
	}
	c.print(t)
	return nil
}

type breakerForceCmd struct {
	Destination string `arg:"" help:"Name of the destination."`
	To          string `arg:"" enum:"open,half-open,half_open" help:"open or half-open."`
	Class       string `placeholder:"CLASS" help:"Class of operations, where a destination has a breaker for each."`
	Reason      string `short:"r" required:"" placeholder:"TEXT" help:"Why; goes into the receipt."`
}

func (f breakerForceCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	list, err := client.ForceBreaker(ctx, f.Destination, operator.BreakerForce{
		Class: f.Class, To: strings.ReplaceAll(f.To, "-", "_"), Reason: f.Reason,
	})
	if err != nil {
		return err
	}
	return c.breakers(cmd, list)
}
