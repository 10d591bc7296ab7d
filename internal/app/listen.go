package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog/configs"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/proxy"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// firstBound is the port of the first automatic bound listener; the others follow in the order of the destinations' names.
const firstBound = 7101

// bind opens all sockets, so that a taken port is known before anything is served.
func (a *App) bind() error {
	if len(a.boot.Listeners) == 0 {
		return errors.New("bootstrap: no listeners")
	}
	bound := map[string]bool{}
	for _, l := range a.boot.Listeners {
		if l.Destination != "" && a.snapshot.Destination(l.Destination) == nil {
			return fmt.Errorf("listener %s: no destination %q is configured", l.Address, l.Destination)
		}
		if err := a.open(l, false); err != nil {
			return err
		}
		bound[l.Destination] = true
	}
	names := make([]string, 0, len(a.options.Bind))
	for d := range a.options.Bind {
		names = append(names, d)
	}
	sort.Strings(names)
	main := a.boot.Listeners[0]
	for _, d := range names {
		if a.snapshot.Destination(d) == nil {
			return fmt.Errorf("--bind %s: no such destination is configured", d)
		}
		l := main
		l.Address, l.Destination = a.options.Bind[d], d
		if err := a.open(l, false); err != nil {
			return err
		}
		bound[d] = true
	}
	// Without a bootstrap of one's own every destination gets a listener without a prefix, where its port is free.
	if a.options.Bootstrap == "" && a.options.Listen == "" {
		host, _, err := net.SplitHostPort(main.Address)
		if err != nil {
			return fmt.Errorf("listener %s: %w", main.Address, err)
		}
		for i, d := range a.destinationNames() {
			if bound[d] {
				continue
			}
			l := main
			l.Address, l.Destination = net.JoinHostPort(host, strconv.Itoa(firstBound+i)), d
			if err := a.open(l, true); err != nil {
				a.skipped = append(a.skipped, l.Address)
			}
		}
	}
	ln, err := net.Listen("tcp", a.boot.AdminAddress)
	if err != nil {
		return fmt.Errorf("admin address: %w", err)
	}
	a.adminURL = "http://" + ln.Addr().String()
	a.adminListener = ln
	return nil
}

func (a *App) open(l configs.Listener, auto bool) error {
	ln, err := net.Listen("tcp", l.Address)
	if err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	l.Address = ln.Addr().String()
	a.mu.Lock()
	a.entries = append(a.entries, &entry{Listener: l, ln: ln, auto: auto})
	a.mu.Unlock()
	return nil
}

// serve starts everything that runs beside requests. Each part ends with Close, which waits for it.
func (a *App) serve(ctx context.Context) error {
	conns := make(chan struct{}, max(a.boot.MaxConnections, 1))
	for _, e := range a.entries {
		e.http = &http.Server{
			Handler: a.handler.Entry(proxy.Listener{
				Name: e.Address, Address: e.Address, Destination: e.Destination, Actor: e.Actor, Function: e.Function,
			}),
			ReadHeaderTimeout: a.boot.HeaderTimeout,
			IdleTimeout:       5 * time.Minute,
			MaxHeaderBytes:    a.boot.MaxRequestHeadBytes,
			ErrorLog:          a.httpErrors(),
			Protocols:         new(http.Protocols),
		}
		e.http.Protocols.SetHTTP1(true)
		ln := proxy.FramingListener(limitListener{e.ln, conns}, func(net.Addr) { a.handler.RefusedFraming(e.Address) })
		a.run("listener "+e.Address, func() error { return e.http.Serve(ln) })
	}
	api := operator.New(a.operatorDeps())
	socket, err := operator.Serve(a.boot.OperatorSocket, api)
	if err != nil {
		return err
	}
	a.socket = socket
	a.admin = &http.Server{Handler: a.adminHandler(api), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: a.httpErrors()}
	a.run("admin "+a.adminURL, func() error { return a.admin.Serve(a.adminListener) })
	a.wg.Go(func() { a.handler.Watch(ctx, a.store.LevelChanged) })
	a.wg.Go(func() { a.sweep(ctx) })
	if a.watcher != nil {
		a.wg.Go(func() { a.watcher.Run(ctx) })
	}
	a.ready.Store(true)
	return nil
}

func (a *App) run(what string, f func() error) {
	a.wg.Go(func() {
		if err := f(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case a.failed <- fmt.Errorf("%s: %w", what, err):
			default:
			}
		}
	})
}

// receiptsKept is how long receipts are kept after they were written.
const receiptsKept = 400 * 24 * time.Hour

// sweep ends holds that have expired and, once a day, removes logs that are past their retention.
func (a *App) sweep(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	pruned := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if now.Sub(pruned) > 24*time.Hour {
				pruned = now
				a.prune(ctx, now.Add(-receiptsKept))
			}
			if err := a.ledger.Sweep(ctx, now); err != nil {
				a.log.Error("sweep the ledger", "error", err)
			}
		}
	}
}

// prune keeps every log that holds a receipt of an operation which is still open.
func (a *App) prune(ctx context.Context, before time.Time) {
	open := map[string]bool{}
	for _, list := range []func(context.Context) ([]ledger.Operation, error){a.ledger.Holds, a.ledger.Open} {
		ops, err := list(ctx)
		if err != nil {
			a.log.Error("list open operations", "error", err)
			return
		}
		for _, op := range ops {
			open[op.Receipt.Log] = true
		}
	}
	n, err := a.receipts.Prune(ctx, before, func(origin string) bool { return open[origin] })
	if err != nil {
		a.log.Error("prune old receipts", "error", err)
	}
	if n > 0 {
		a.log.Info("old receipts were pruned", "logs", n)
	}
}

// limitListener bounds the connections of all listeners together.
type limitListener struct {
	net.Listener
	slots chan struct{}
}

func (l limitListener) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitConn{Conn: c, slots: l.slots}, nil
}

type limitConn struct {
	net.Conn
	slots chan struct{}
	once  onceFlag
}

func (c *limitConn) Close() error {
	err := c.Conn.Close()
	if c.once.first() {
		<-c.slots
	}
	return err
}

func (c *limitConn) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

// URL is the base URL under which agents reach a destination: the main listener's, else one that is bound to it.
func (a *App) URL(destination string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.entries {
		if e.Destination == "" {
			return "http://" + e.Address + "/" + destination
		}
	}
	for _, e := range a.entries {
		if e.Destination == destination {
			return "http://" + e.Address
		}
	}
	return ""
}

// BoundURL is the URL of a listener without a prefix for this destination, or "".
func (a *App) BoundURL(destination string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.entries {
		if e.Destination == destination {
			return "http://" + e.Address
		}
	}
	return ""
}

// AdminURL is the base URL of the admin port.
func (a *App) AdminURL() string { return a.adminURL }

// OperatorSocket is the path of the Unix socket that changes things.
func (a *App) OperatorSocket() string { return a.boot.OperatorSocket }

// DataDir is the data directory.
func (a *App) DataDir() string { return a.boot.DataDir }

// problemBase is where problem types resolve.
func (a *App) problemBase() string {
	if b := a.boot.ProblemBaseURL; b != "" {
		return strings.TrimSuffix(b, "/") + "/"
	}
	return a.adminURL + "/problems/"
}

// Flights is the number of agents' requests under way.
func (a *App) Flights() int { return a.handler.InFlight() }
