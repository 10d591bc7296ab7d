package main

import (
	"context"
	"fmt"

	"github.com/stoplog/stoplog/configs"
)

type configCmd struct {
	Show      configShowCmd      `cmd:"" default:"withargs" help:"Print the configuration in force at the running sidecar."`
	Reload    configReloadCmd    `cmd:"" help:"Have the running sidecar read its files anew: whole, or not at all."`
	Default   configDefaultCmd   `cmd:"" help:"Print what holds without a configuration file, to start from."`
	Reference configReferenceCmd `cmd:"" help:"Print every field, explained."`
	Profile   configProfileCmd   `cmd:"" help:"Print a shipped connector profile, to start from."`
}

func (configCmd) Help() string {
	return `Examples:
  stoplog config default > stoplog.yaml
  stoplog config profile slack
  stoplog config reload`
}

type configShowCmd struct{}

func (configShowCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	d, err := client.Config(ctx)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return c.json(d)
	}
	fmt.Fprintf(c.out, "# version %s\n%s", d.Version, d.YAML)
	return nil
}

type configReloadCmd struct{}

func (configReloadCmd) Run(ctx context.Context, cmd *cli, c *console) error {
	client, err := cmd.client()
	if err != nil {
		return err
	}
	v, err := client.Reload(ctx)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return c.json(v)
	}
	word := "unchanged"
	if v.Changed {
		word = "in force"
	}
	fmt.Fprintf(c.out, "%s: version %s\n", word, short(v.Version))
	return nil
}

type configDefaultCmd struct{}

func (configDefaultCmd) Run(c *console) error {
	_, err := fmt.Fprint(c.out, configs.DefaultYAML())
	return err
}

type configReferenceCmd struct{}

func (configReferenceCmd) Run(c *console) error {
	_, err := fmt.Fprint(c.out, configs.ReferenceYAML())
	return err
}

type configProfileCmd struct {
	Name string `arg:"" help:"Name of the profile, for example slack."`
}

func (p configProfileCmd) Run(c *console) error {
	text, ok := configs.ShippedProfile(p.Name)
	if !ok {
		return usage(fmt.Errorf("no shipped profile %q", p.Name))
	}
	_, err := fmt.Fprint(c.out, text)
	return err
}
