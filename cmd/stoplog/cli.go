package main

import (
	"path/filepath"

	"github.com/stoplog/stoplog/configs"
	"github.com/stoplog/stoplog/internal/operator"
)

// cli is the command line. Each command is a struct with its flags and a Run method, in a file named after it.
type cli struct {
	JSON   bool   `name:"json" help:"Print JSON with stable names instead of tables."`
	UTC    bool   `name:"utc" help:"Print times in UTC instead of local time."`
	Data   string `name:"data" placeholder:"DIR" env:"STOPLOG_DATA" help:"Data directory of the sidecar."`
	Socket string `name:"socket" placeholder:"PATH" env:"STOPLOG_SOCKET" help:"Operator socket, if it is not in the data directory."`
	Server string `name:"server" placeholder:"URL" env:"STOPLOG_SERVER" help:"Reach the sidecar at its admin port instead, with the token in --token-file."`
	Token  string `name:"token-file" placeholder:"FILE" env:"STOPLOG_TOKEN_FILE" help:"Operator token for --server (default: operator.token in the data directory)."`

	Up         upCmd         `cmd:"" help:"Run the sidecar."`
	Demo       demoCmd       `cmd:"" help:"Show what Stoplog does: offline, half a minute, nothing to set up."`
	Learn      learnCmd      `cmd:"" help:"Print the configuration for what was denied as unknown."`
	Level      levelCmd      `cmd:"" help:"The kill switch: show, raise, lower."`
	Holds      holdsCmd      `cmd:"" help:"Held messages and parked writes: list, release, withdraw."`
	Breaker    breakerCmd    `cmd:"" help:"Breakers of destinations: list, force."`
	Budget     budgetCmd     `cmd:"" help:"Budgets: show what is used and left."`
	Receipts   receiptsCmd   `cmd:"" help:"Receipts: tail, show, verify, prove."`
	Explain    explainCmd    `cmd:"" help:"Say in plain words why an effect was decided as it was, and what would change it."`
	Check      checkCmd      `cmd:"" help:"Check configuration files strictly."`
	Config     configCmd     `cmd:"" help:"Print the shipped or the running configuration; reload it."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
}

// dataDir is the data directory that the command works on.
func (c *cli) dataDir() string {
	if c.Data != "" {
		return c.Data
	}
	return configs.DefaultBootstrap().DataDir
}

// client reaches the running sidecar.
func (c *cli) client() (*operator.Client, error) {
	if c.Server != "" {
		path := c.Token
		if path == "" {
			path = filepath.Join(c.dataDir(), operator.TokenName)
		}
		token, err := operator.ReadToken(path)
		if err != nil {
			return nil, usage(err)
		}
		return operator.DialAdmin(c.Server, token), nil
	}
	if c.Socket != "" {
		return operator.Dial(c.Socket), nil
	}
	return operator.Dial(filepath.Join(c.dataDir(), operator.SocketName)), nil
}

// remote reports whether receipts come from a sidecar rather than from the data directory's files.
func (c *cli) remote() bool { return c.Server != "" || c.Socket != "" }

type versionCmd struct{}

func (versionCmd) Run(cmd *cli, c *console) error {
	if cmd.JSON {
		return c.json(map[string]string{"version": version})
	}
	_, err := c.out.Write([]byte("stoplog " + version + "\n"))
	return err
}
