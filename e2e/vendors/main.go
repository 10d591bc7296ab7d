// Command vendors runs the fake vendors for the end-to-end tests. It prints one line of JSON, {"control": URL, "vendors":
// {name: URL}}, and ends when its standard input does, so that it never outlives a test run that was killed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/stoplog/stoplog/internal/fakevendor"
)

func main() {
	err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vendors:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fleet, err := fakevendor.Start(ctx, fakevendor.Options{Control: true})
	if err != nil {
		return err
	}
	defer fleet.Close()
	urls := map[string]string{}
	for _, n := range fleet.Vendors() {
		urls[n] = fleet.URL(n)
	}
	err = json.NewEncoder(os.Stdout).Encode(map[string]any{"control": fleet.ControlURL(), "vendors": urls})
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	<-ctx.Done()
	return nil
}
