package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/configs"
	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/internal/memory"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/proxy"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
	"github.com/stoplog/stoplog/receipts/segment"
)

// Options of a sidecar. The zero value is `stoplog up` without arguments.
type Options struct {
	Config        []string          // files or folders; none = the shipped destinations and the playground
	Bootstrap     string            // file; "" = defaults
	Listen, Admin string            // override the bootstrap's
	Data          string            // data directory; overrides the bootstrap's
	Bind          map[string]string // destination -> address of a listener of its own; overrides
	Tenant, Agent string            // of the main listener; overrides
	Observe       bool              // judge and record everything, enforce the address rule only
	Version       string
	Out           io.Writer // where the banner goes; nil = nowhere
	LogOut        io.Writer // the process's log; nil = standard error

	// Resolve looks up destinations' names; nil = the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// App is a running sidecar.
type App struct {
	options   Options
	boot      *configs.Bootstrap
	log       *slog.Logger
	receipts  *segment.Log
	ledger    *ledger.Local
	store     *memory.Store
	upstreams proxy.Upstreams
	handler   *proxy.Handler
	watcher   *configs.Watcher
	metrics   *metrics
	fakes     *fakevendor.Fleet
	socket    *operator.Socket
	token     string

	ready         atomic.Bool
	reloader      atomic.Pointer[string] // who asked for the reload under way
	mu            sync.Mutex
	snapshot      *configs.Snapshot
	entries       []*entry // listeners, the main one first
	admin         *http.Server
	adminURL      string
	adminListener net.Listener
	skipped       []string // automatic listeners that could not be opened

	stop   context.CancelFunc
	wg     sync.WaitGroup
	failed chan error
	ended  sync.Once
	endErr error
}

// entry is one open listener.
type entry struct {
	configs.Listener
	ln   net.Listener
	http *http.Server
	auto bool
}

// Start brings a sidecar up. The order is a safety property: records, levels and configuration first, sockets bound next,
// nothing served before all of it is known. On an error everything that was opened is closed again.
func Start(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{options: o, failed: make(chan error, 1)}
	a.upstreams.Own = proxy.Guard{Own: a.own, Lookup: o.Resolve}
	defer func() {
		if err != nil {
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = a.Close(cctx)
		}
	}()
	if err := a.bootstrap(); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	if err := a.openState(ctx); err != nil {
		return nil, err
	}
	if err := a.loadConfig(ctx); err != nil {
		return nil, err
	}
	if err := a.bind(); err != nil {
		return nil, err
	}
	a.handler = proxy.New(proxy.Options{
		Log: a.receipts, Ledger: a.ledger, Key: a.ledger.Key, NewID: newID, Committer: a.committer,
		LocalURL: a.URL, ProblemBase: a.problemBase(), Events: a.metrics.events(a.log),
	})
	rt, err := a.compile(a.snapshot)
	if err != nil {
		return nil, err
	}
	a.handler.Swap(rt)
	if err := a.restoreSpend(ctx); err != nil {
		return nil, err
	}
	if err := a.policyReceipt(ctx, "start"); err != nil {
		return nil, err
	}
	if err := a.serve(run); err != nil {
		return nil, err
	}
	if o.Out != nil {
		a.Banner(o.Out)
	}
	return a, nil
}

func (a *App) bootstrap() error {
	a.boot = configs.DefaultBootstrap()
	if a.options.Bootstrap != "" {
		b, err := configs.LoadBootstrap(a.options.Bootstrap)
		if err != nil {
			return err
		}
		a.boot = b
	}
	o := a.options
	if o.Admin != "" {
		a.boot.AdminAddress = o.Admin
	}
	if o.Data != "" {
		a.boot.DataDir = o.Data
		a.boot.OperatorSocket = filepath.Join(o.Data, operator.SocketName)
	}
	main := -1
	for i := range a.boot.Listeners {
		if a.boot.Listeners[i].Destination == "" {
			main = i
			break
		}
	}
	if main < 0 && (o.Listen != "" || o.Tenant != "" || o.Agent != "") {
		a.boot.Listeners = append(a.boot.Listeners, configs.Listener{Address: "127.0.0.1:7070", Actor: stoplog.Actor{Tenant: "local"}})
		main = len(a.boot.Listeners) - 1
	}
	if main >= 0 {
		l := &a.boot.Listeners[main]
		if o.Listen != "" {
			l.Address = o.Listen
		}
		if o.Tenant != "" {
			l.Actor.Tenant = o.Tenant
		}
		if o.Agent != "" {
			l.Actor.Agent = o.Agent
		}
	}
	out := a.options.LogOut
	if out == nil {
		out = os.Stderr
	}
	a.log = newLogger(out, a.boot)
	a.metrics = newMetrics(a.options.Version)
	return nil
}

// openState opens everything durable: the receipt log, the ledger over it, and the store of levels and limits.
func (a *App) openState(ctx context.Context) error {
	dir, err := filepath.Abs(a.boot.DataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := a.openRecords(ctx, dir); err != nil {
		return err
	}
	a.store = memory.New(memory.Options{
		LevelFile: filepath.Join(dir, "levels.json"),
		OnBreaker: a.breakerMoved,
		OnLevel: func(e killswitch.Entry) {
			a.metrics.level.WithLabelValues(string(e.Scope)).Set(float64(e.Record.Level()))
			a.log.Warn("kill switch changed", "scope", e.Scope, "level", e.Record.Level().String())
		},
	})
	if w := a.store.Warning(); w != nil {
		a.log.Error("the kill switch's file cannot be read; writes and messages are stopped until a person sets the level", "error", w)
	}
	a.token, err = operator.Token(dir)
	return err
}

// breakerMoved records a breaker's move; the store has moved already, and no request waits for this record.
func (a *App) breakerMoved(v admission.BreakerView) {
	a.metrics.breaker.WithLabelValues(v.Destination, v.Class).Set(float64(v.State))
	a.log.Warn("breaker moved", "destination", v.Destination, "class", v.Class, "state", v.State.String(), "epoch", v.Epoch)
	_, err := a.receipts.Enqueue(&receipts.Receipt{
		Type: receipts.TypeBreaker, Destination: v.Destination, Breaker: v.State.String(), BreakerEpoch: v.Epoch,
		Note: map[string]string{"class": v.Class, "trips": fmt.Sprint(v.Trips)},
	})
	if err != nil {
		a.log.Error("record a breaker's move", "error", err)
	}
}

func (a *App) loadConfig(ctx context.Context) error {
	if len(a.options.Config) > 0 {
		w, err := configs.Watch(a.reconfigured, a.options.Config...)
		if err != nil {
			return err
		}
		a.watcher, a.snapshot = w, w.Current()
	} else {
		fakes, err := fakevendor.Start(context.WithoutCancel(ctx), fakevendor.Options{Vendors: []string{"playground"}})
		if err != nil {
			return fmt.Errorf("start the playground: %w", err)
		}
		a.fakes = fakes
		a.snapshot, err = configs.DefaultWithPlayground(fakes.URL("playground"))
		if err != nil {
			return err
		}
	}
	if err := a.store.Merge(a.snapshot.Levels()); err != nil {
		return fmt.Errorf("kill switches of the configuration: %w", err)
	}
	return nil
}

// reconfigured takes up a changed configuration: whole or not at all.
func (a *App) reconfigured(s *configs.Snapshot, err error) {
	var rt *proxy.Runtime
	if err == nil {
		rt, err = a.compile(s)
	}
	if err != nil {
		a.metrics.reloads.WithLabelValues("refused").Inc()
		a.log.Error("configuration refused; the old one stays in force", "error", err)
		return
	}
	a.mu.Lock()
	old := a.snapshot
	a.snapshot = s
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	why := "file change"
	if by := a.reloader.Load(); by != nil {
		why = "reload by " + *by
	}
	if err := a.policyReceipt(ctx, why); err != nil {
		a.mu.Lock()
		a.snapshot = old
		a.mu.Unlock()
		a.metrics.reloads.WithLabelValues("refused").Inc()
		a.log.Error("configuration not taken up: its record could not be written", "error", err)
		return
	}
	if err := a.store.Merge(s.Levels()); err != nil {
		a.log.Error("merge the kill switches of the configuration", "error", err)
	}
	a.handler.Swap(rt)
	a.metrics.reloads.WithLabelValues("accepted").Inc()
	a.metrics.config(s.Version())
	a.log.Info("configuration in force", "version", s.Version(), "destinations", len(s.Destinations()))
}

func (a *App) policyReceipt(ctx context.Context, why string) error {
	s := a.Snapshot()
	_, err := a.receipts.Append(ctx, &receipts.Receipt{
		Type: receipts.TypePolicy, Policy: s.Version(),
		Note: map[string]string{"why": why, "destinations": fmt.Sprint(len(s.Destinations())), "observe": fmt.Sprint(a.options.Observe)},
	})
	if err != nil {
		return fmt.Errorf("record the configuration: %w", err)
	}
	a.metrics.config(s.Version())
	return nil
}

// Snapshot is the configuration in force.
func (a *App) Snapshot() *configs.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.snapshot
}

// Reload reads the configuration's files now.
func (a *App) Reload() error { return a.reload("signal") }

// reload is asked for by a person; by goes into the receipt.
func (a *App) reload(by string) error {
	if a.watcher == nil {
		return errors.New("no configuration file was given, so there is nothing to reload")
	}
	a.reloader.Store(&by)
	defer a.reloader.Store(nil)
	return a.watcher.Reload()
}

// Close drains and ends the sidecar: no new effects, those in flight end or their outcome is recorded as unknown, and the log
// is sealed. It is safe to call more than once.
func (a *App) Close(ctx context.Context) error {
	a.ended.Do(func() { a.endErr = a.close(ctx) })
	return a.endErr
}

func (a *App) close(ctx context.Context) error {
	var errs []error
	if a.handler != nil {
		if err := a.handler.Drain(ctx); err != nil {
			errs = append(errs, fmt.Errorf("effects still in flight: %w", err))
		}
	}
	for _, e := range a.entries {
		if e.http != nil {
			_ = e.http.Close()
		}
		_ = e.ln.Close()
	}
	if a.stop != nil {
		a.stop()
	}
	if a.socket != nil {
		errs = append(errs, a.socket.Close(ctx))
	}
	if a.admin != nil {
		_ = a.admin.Close()
	}
	a.wg.Wait()
	a.upstreams.Close()
	if a.fakes != nil {
		a.fakes.Close()
	}
	if a.receipts != nil {
		errs = append(errs, a.receipts.Close())
	}
	return errors.Join(errs...)
}

// Wait returns when a part of the sidecar that it cannot do without has failed.
func (a *App) Wait() error { return <-a.failed }

// own reports the addresses that this process listens at.
func (a *App) own(p netip.AddrPort) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.entries {
		if ap, err := netip.ParseAddrPort(e.ln.Addr().String()); err == nil && ap.Port() == p.Port() &&
			(ap.Addr().Unmap() == p.Addr() || ap.Addr().IsUnspecified() || p.Addr().IsLoopback() && ap.Addr().IsLoopback()) {
			return true
		}
	}
	return false
}

// Destinations are the names of all destinations, sorted.
func (a *App) destinationNames() []string {
	var out []string
	for _, d := range a.Snapshot().Destinations() {
		out = append(out, d.Name)
	}
	sort.Strings(out)
	return out
}
