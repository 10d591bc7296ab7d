package main

import (
	"context"

	"github.com/stoplog/stoplog/internal/demo"
)

type demoCmd struct {
	Fast bool `help:"Do not pause for reading."`
}

func (demoCmd) Help() string {
	return `Runs a real sidecar and fake vendors on loopback in a temporary folder, makes real calls through it, and checks each claim
it makes. Exit code 1 if one does not hold.`
}

func (d demoCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	o := demo.Options{Version: version, Pace: !d.Fast && c.tty, Paint: c.paint}
	if !cmd.JSON {
		o.Out = c.out
	}
	res, err := demo.Run(ctx, o)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = c.json(res)
		if err != nil {
			return err
		}
	}
	if !res.OK {
		return told{exitFailed}
	}
	return nil
}
