package main

import (
	"context"
	"fmt"

	"github.com/stoplog/stoplog/configs"
)

type checkCmd struct {
	Files     []string `arg:"" name:"file" help:"Configuration files or folders; together they are one configuration."`
	Bootstrap bool     `help:"The file is a bootstrap file."`
}

func (checkCmd) Help() string {
	return `Every problem is told with its place, the field, and how to mend it. Exit code 2 if there is one.

Examples:
  stoplog check stoplog.yaml
  stoplog check conf.d/ --json
  stoplog check --bootstrap bootstrap.yaml`
}

// finding is one problem as --json prints it.
type finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
	Mend    string `json:"mend,omitempty"`
}

func (k checkCmd) Run(cmd *cli, c *console) error {
	var problems configs.Errors
	version, destinations := "", 0
	if k.Bootstrap {
		for _, f := range k.Files {
			_, err := configs.LoadBootstrap(f)
			problems = append(problems, configs.Problems(err)...)
		}
	} else {
		s, err := configs.Load(k.Files...)
		problems = configs.Problems(err)
		if err == nil {
			version, destinations = s.Version(), len(s.Destinations())
		}
	}
	if cmd.JSON {
		list := make([]finding, 0, len(problems))
		for _, p := range problems {
			list = append(list, finding{p.File, p.Line, p.Column, p.Field, p.Problem, p.Mend})
		}
		err := c.json(map[string]any{"ok": len(problems) == 0, "version": version, "destinations": destinations, "problems": list})
		if err != nil {
			return err
		}
	} else {
		c.findings(problems)
		if len(problems) == 0 {
			fmt.Fprint(c.out, c.paint(green, "ok"))
			if version != "" {
				fmt.Fprintf(c.out, ": %d destinations, version %s", destinations, short(version))
			}
			fmt.Fprintln(c.out)
		}
	}
	if len(problems) > 0 {
		return told{exitUsage}
	}
	return nil
}

func (c *console) findings(problems configs.Errors) {
	for _, p := range problems {
		place := p.File
		if p.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		if p.Field != "" {
			place += " " + p.Field
		}
		fmt.Fprintf(c.out, "%s\n  %s\n", c.paint(bold, clean(place)), c.paint(red, clean(p.Problem)))
		if p.Mend != "" {
			fmt.Fprintf(c.out, "  mend: %s\n", clean(p.Mend))
		}
	}
	if n := len(problems); n > 0 {
		fmt.Fprintf(c.out, "%d problem(s)\n", n)
	}
}

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
