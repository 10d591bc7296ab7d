// Command stoplog stands between AI agents and the outside world: `up` runs the sidecar, the rest is how people look at it
// and steer it. docs/cli.md lists the commands and exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// version is set by the linker (-X main.version=…).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], std(os.Stdin, os.Stdout, os.Stderr))
	stop()
	os.Exit(code)
}

// console is where a command reads and writes, as far as it matters to it.
type console struct {
	in       io.Reader
	out, err io.Writer
	tty      bool // somebody reads out, and can answer
	color    bool
	now      func() time.Time
	zone     *time.Location
}

func std(in, out, err *os.File) *console {
	tty := isTerminal(out)
	return &console{
		in: in, out: out, err: err, tty: tty && isTerminal(in), color: tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		now: time.Now, zone: time.Local,
	}
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// exited carries kong's exit out of its parser: a help text ends the command without an error.
type exited int

// run is the whole program: arguments in, exit code out.
func run(ctx context.Context, args []string, c *console) (code int) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(e)
		}
	}()
	var cmd cli
	parser, err := newParser(&cmd, c)
	if err != nil {
		fmt.Fprintln(c.err, "stoplog:", err)
		return exitFailed
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return c.fail(&cmd, usage(err))
	}
	if cmd.UTC {
		c.zone = time.UTC
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	err = kctx.Run(&cmd, c)
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exitInterrupted
	}
	return c.fail(&cmd, err)
}

func newParser(cmd *cli, c *console) (*kong.Kong, error) {
	return kong.New(cmd,
		kong.Name("stoplog"),
		kong.Description("A sidecar between AI agents and the outside world: every effect is judged, forwarded exactly and receipted."),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.Vars{"version": version},
	)
}
