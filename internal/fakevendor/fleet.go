package fakevendor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options says which fakes run. The zero value runs all of them, without the control listener.
type Options struct {
	Vendors       []string      // names to run; empty = all (see Names)
	Control       bool          // also open the control listener (see Control)
	FrameInterval time.Duration // pause between two frames of a stream; 0 = none
	Keep          int           // how many requests and effects each vendor remembers at least; 0 = 10000
}

// builders makes a vendor's routes over fresh state. Reset calls it again.
var builders = map[string]func(*vendor) *http.ServeMux{
	"anthropic":  newAnthropic,
	"gemini":     newGemini,
	"generic":    newGeneric,
	"github":     newGitHub,
	"jira":       newJira,
	"mcp":        newMCP,
	"openai":     newOpenAI,
	"playground": newPlayground,
	"sendgrid":   newSendGrid,
	"slack":      newSlack,
	"stripe":     newStripe,
	"twilio":     newTwilio,
}

// Names lists every vendor that the package can fake, sorted.
func Names() []string {
	names := make([]string, 0, len(builders))
	for n := range builders {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Fleet is a set of running fakes. All methods are safe for concurrent use.
type Fleet struct {
	vendors map[string]*vendor
	control string

	servers []*http.Server
	wg      sync.WaitGroup
	stop    context.CancelFunc
	once    sync.Once
}

// New makes the fakes without any listener: Handler gives each as a plain http.Handler. Faults that cut a connection need
// a real server around the handler.
func New(o Options) (*Fleet, error) {
	names := o.Vendors
	if len(names) == 0 {
		names = Names()
	}
	if o.Keep <= 0 {
		o.Keep = 10_000
	}
	f := &Fleet{vendors: make(map[string]*vendor, len(names)), stop: func() {}}
	for _, n := range names {
		build, ok := builders[n]
		if !ok {
			return nil, fmt.Errorf("no fake vendor %q: have %v", n, Names())
		}
		v := &vendor{name: n, build: build, keep: o.Keep, frames: o.FrameInterval}
		v.reset()
		f.vendors[n] = v
	}
	return f, nil
}

// Start makes the fakes and serves each on its own free loopback port until ctx ends or Close is called.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	f, err := New(o)
	if err != nil {
		return nil, err
	}
	ctx, f.stop = context.WithCancel(ctx)
	for _, n := range f.Vendors() {
		v := f.vendors[n]
		url, err := f.serve(ctx, v)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("fake vendor %s: %w", n, err)
		}
		v.setBase(url)
	}
	if o.Control {
		f.control, err = f.serve(ctx, f.Control())
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("control listener: %w", err)
		}
	}
	context.AfterFunc(ctx, f.Close)
	return f, nil
}

// serve opens one loopback listener. The context of every request ends with the fleet, so that a scripted hang does not
// outlive it.
func (f *Fleet) serve(ctx context.Context, h http.Handler) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
	}
	f.servers = append(f.servers, s)
	f.wg.Go(func() { _ = s.Serve(ln) }) // ends with ErrServerClosed
	return "http://" + ln.Addr().String(), nil
}

// Close stops all listeners and open connections. It may be called more than once.
func (f *Fleet) Close() {
	f.once.Do(func() {
		f.stop()
		for _, s := range f.servers {
			_ = s.Close()
		}
	})
	f.wg.Wait()
}

// Vendors lists the fakes of this fleet, sorted.
func (f *Fleet) Vendors() []string {
	names := make([]string, 0, len(f.vendors))
	for n := range f.vendors {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Handler gives one fake as a plain handler; nil for a name that the fleet does not run.
func (f *Fleet) Handler(vendor string) http.Handler {
	v, ok := f.vendors[vendor]
	if !ok {
		return nil
	}
	return v
}

// URL is the fake's root without a final slash; empty without a listener.
func (f *Fleet) URL(vendor string) string {
	v, ok := f.vendors[vendor]
	if !ok {
		return ""
	}
	return v.baseURL()
}

// Host is the fake's host:port; empty without a listener.
func (f *Fleet) Host(vendor string) string {
	u := f.URL(vendor)
	if u == "" {
		return ""
	}
	return u[len("http://"):]
}

// ControlURL is the root of the control listener; empty without Options.Control.
func (f *Fleet) ControlURL() string { return f.control }

// Reset forgets requests, effects, faults and all state of every vendor.
func (f *Fleet) Reset() {
	for _, v := range f.vendors {
		v.reset()
	}
}

var errNoVendor = errors.New("no such vendor in this fleet")
