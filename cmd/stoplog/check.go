package main

import (
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
