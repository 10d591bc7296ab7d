package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/stoplog/stoplog/internal/app"
)

type upCmd struct {
	Config    []string          `placeholder:"FILE" short:"c" help:"Configuration file or folder; may be repeated. None: the shipped destinations and a playground."`
	Bootstrap string            `placeholder:"FILE" type:"existingfile" help:"Bootstrap file: listeners, actors, addresses."`
	Listen    string            `placeholder:"ADDR" help:"Where agents connect (default 127.0.0.1:7070)."`
	Admin     string            `placeholder:"ADDR" help:"Health, metrics and problem pages (default 127.0.0.1:7071)."`
	Bind      map[string]string `placeholder:"DEST=ADDR" help:"A listener of its own for one destination, without a prefix in the path; may be repeated."`
	Tenant    string            `placeholder:"ID" help:"Tenant of whoever connects (default local)."`
	Agent     string            `placeholder:"ID" help:"Agent of whoever connects."`
	Observe   bool              `help:"Judge and record everything, enforce nothing but which addresses may be dialled."`
	Drain     time.Duration     `default:"20s" help:"How long calls under way may take at the end."`
}

func (upCmd) Help() string {
	return `Prints each destination's base URL and what to set in its SDK. Ends on Ctrl-C or SIGTERM after the calls under way; SIGHUP
reads the configuration anew.

Examples:
  stoplog up
  stoplog up --config stoplog.yaml --tenant acme --agent support-bot
  stoplog up --bind stripe=127.0.0.1:7080
  stoplog up --observe`
}

func (u upCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a small heap that is collected seldom: a tenth less CPU for some tens of MiB
	}
	// One fault of arguments or files is told at once and in full, before anything is opened.
	a, err := app.Start(ctx, app.Options{
		Config: u.Config, Bootstrap: u.Bootstrap, Listen: u.Listen, Admin: u.Admin, Data: cmd.Data, Bind: u.Bind,
		Tenant: u.Tenant, Agent: u.Agent, Observe: u.Observe, Version: version, LogOut: c.err,
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if cmd.JSON {
		err = c.json(started(a))
	} else {
		a.Banner(c.out)
	}
	if err == nil {
		err = wait(ctx, a, c)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.Drain)
	defer cancel()
	return errors.Join(err, a.Close(end))
}

// started says where everything is.
func started(a *app.App) map[string]any {
	urls := map[string]string{}
	for _, d := range a.Snapshot().Destinations() {
		urls[d.Name] = a.URL(d.Name)
	}
	return map[string]any{
		"version": version, "admin": a.AdminURL(), "operator_socket": a.OperatorSocket(), "data": a.DataDir(), "destinations": urls,
	}
}

// wait returns when the sidecar has failed or is asked to end.
func wait(ctx context.Context, a *app.App, c *console) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	failed := make(chan error, 1)
	go func() { failed <- a.Wait() }() // ends with the process: a sidecar that never fails never returns
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(c.err, "stoplog: ending; calls under way are finished")
			return nil
		case err := <-failed:
			return err
		case <-hup:
			err := a.Reload()
			if err != nil {
				fmt.Fprintln(c.err, "stoplog: reload:", err)
			}
		}
	}
}
