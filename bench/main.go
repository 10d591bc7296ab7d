// Command bench compares Stoplog with a tuned httputil.ReverseProxy that decides nothing, in one run on one machine:
//
//	go run ./bench              all cases, 5 rounds
//	go run ./bench -rounds 3 -seconds 1 -case write-1k
//
// Every process has its own work: the proxy under test runs alone on one CPU, the load generator and the upstream on another
// (where taskset exists). Rounds alternate between the contenders, and each figure is the median of the ratios within a
// round: machines drift, pairs do not. CPU is user and system time of the proxy's process per request.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type benchCase struct {
	name    string
	method  string
	path    string // behind the destination's base URL
	body    int    // bytes; 0 = none
	conns   int
	durable bool // the intent and the outcome are on disk: measured against itself, not gated
}

// A call of class model passes all local stages without a durable intent; a write has one.
var cases = []benchCase{
	{name: "get", method: "GET", path: "/items/1", conns: 32},
	{name: "model-512", method: "POST", path: "/v1/chat/completions", body: 512, conns: 32},
	{name: "model-1k", method: "POST", path: "/v1/chat/completions", body: 1 << 10, conns: 32},
	{name: "model-4k", method: "POST", path: "/v1/chat/completions", body: 4 << 10, conns: 32},
	{name: "model-32k", method: "POST", path: "/v1/chat/completions", body: 32 << 10, conns: 32},
	{name: "get-1conn", method: "GET", path: "/items/1", conns: 1},
	{name: "model-1k-1conn", method: "POST", path: "/v1/chat/completions", body: 1 << 10, conns: 1},
	{name: "write-1k", method: "POST", path: "/items", body: 1 << 10, conns: 32, durable: true},
	{name: "write-1k-256conn", method: "POST", path: "/items", body: 1 << 10, conns: 256, durable: true},
}

func main() {
	role := flag.String("role", "", "internal: the part that a child process plays")
	target := flag.String("target", "", "internal: the upstream of the reverse proxy")
	rounds := flag.Int("rounds", 5, "rounds per case")
	seconds := flag.Float64("seconds", 1, "seconds per run")
	only := flag.String("case", "", "run cases whose name contains this")
	binary := flag.String("stoplog", "bin/stoplog", "the binary to measure")
	flag.Parse()
	var err error
	switch *role {
	case "upstream":
		err = serveUpstream()
	case "proxy":
		err = serveReverseProxy(*target)
	default:
		err = bench(*rounds, time.Duration(*seconds*float64(time.Second)), *only, *binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// announce serves h on a free loopback port and prints its address.
func announce(h http.Handler) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	return (&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}).Serve(ln)
}

var answerBody = []byte(`{"id":"chatcmpl-1","object":"chat.completion","model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"` +
	strings.Repeat("word ", 160) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":200,"completion_tokens":160,"total_tokens":360}}`)

func serveUpstream() error {
	return announce(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answerBody)))
		_, _ = w.Write(answerBody)
	}))
}

// serveReverseProxy is the reference: tuned, and without an opinion.
func serveReverseProxy(target string) error {
	u := &url.URL{Scheme: "http", Host: target}
	return announce(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	})
}

type contender struct {
	name   string
	cmd    *exec.Cmd
	addr   string
	prefix map[bool]string // by "is a model call"
}

func bench(rounds int, d time.Duration, only, binary string) error {
	dir, err := os.MkdirTemp("", "stoplog-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	var children []*exec.Cmd
	defer func() {
		for _, c := range children {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	up, addr, err := child(0, self, "-role", "upstream")
	if err != nil {
		return fmt.Errorf("start the upstream: %w", err)
	}
	children = append(children, up)
	ref, refAddr, err := child(1, self, "-role", "proxy", "-target", addr)
	if err != nil {
		return fmt.Errorf("start the reference: %w", err)
	}
	children = append(children, ref)
	sl, slAddr, err := sidecar(binary, dir, addr)
	if err != nil {
		return fmt.Errorf("start %s (build it with `make build`): %w", binary, err)
	}
	children = append(children, sl)
	runtime.LockOSThread()
	pin(0, os.Getpid())

	a := contender{name: "reference", cmd: ref, addr: refAddr, prefix: map[bool]string{}}
	b := contender{name: "stoplog", cmd: sl, addr: slAddr, prefix: map[bool]string{true: "/openai", false: "/generic"}}
	fmt.Printf("%d CPUs, %s, %d rounds of %v, median of the ratios within a round\n\n", runtime.NumCPU(), runtime.Version(), rounds, d)
	fmt.Printf("%-18s %12s %12s %10s %10s %10s %10s %10s %10s\n", "case", "ref req/s", "req/s", "x req/s", "ref µs CPU", "µs CPU", "x CPU", "+p50 µs", "p99 ms")
	for _, c := range cases {
		if !strings.Contains(c.name, only) {
			continue
		}
		var pairs []pair
		for i := range rounds + 1 {
			select {
			case <-stop:
				return errors.New("interrupted")
			default:
			}
			x, err := run(a, c, d)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, a.name, err)
			}
			y, err := run(b, c, d)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, b.name, err)
			}
			if i > 0 { // the first round warms up
				pairs = append(pairs, pair{x, y})
			}
		}
		m := func(f func(pair) float64) float64 { return median(pairs, f) }
		fmt.Printf("%-18s %12.0f %12.0f %10.2f %10.1f %10.1f %10.2f %10.0f %10.2f\n", c.name,
			m(func(p pair) float64 { return p.a.rate }), m(func(p pair) float64 { return p.b.rate }), m(func(p pair) float64 { return p.b.rate / p.a.rate }),
			m(func(p pair) float64 { return p.a.cpu }), m(func(p pair) float64 { return p.b.cpu }), m(func(p pair) float64 { return p.b.cpu / p.a.cpu }),
			m(func(p pair) float64 { return p.b.p50 - p.a.p50 }), m(func(p pair) float64 { return p.b.p99 / 1000 }))
	}
	return nil
}

type pair struct{ a, b figures }

func median(ps []pair, f func(pair) float64) float64 {
	v := make([]float64, len(ps))
	for i, p := range ps {
		v[i] = f(p)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// child starts a process on a CPU and reads the address that it prints.
func child(cpu int, name string, args ...string) (*exec.Cmd, string, error) {
	cmd := pinned(cpu, name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return cmd, strings.TrimSpace(line), err
}

func pinned(cpu int, name string, args ...string) *exec.Cmd {
	if t, err := exec.LookPath("taskset"); err == nil && runtime.NumCPU() > 1 {
		return exec.Command(t, append([]string{"-c", strconv.Itoa(cpu), name}, args...)...)
	}
	return exec.Command(name, args...)
}

func pin(cpu, pid int) {
	if t, err := exec.LookPath("taskset"); err == nil && runtime.NumCPU() > 1 {
		_ = exec.Command(t, "-a", "-p", "-c", strconv.Itoa(cpu), strconv.Itoa(pid)).Run()
	}
}

func sidecar(binary, dir, upstream string) (*exec.Cmd, string, error) {
	_, port, _ := net.SplitHostPort(upstream)
	stanza := func(name, upstream string) string {
		return fmt.Sprintf(`
  - name: %[1]s
    url: http://%[2]s
    connector_profile: %[1]s
    deadline: {total: 60s, per_attempt: 30s}
    retry: {attempts: 2, bucket: {capacity: 100, refill_tokens: 100, refill_interval: 1s}, base_backoff: 200ms, max_backoff: 1200ms, min_useful_attempt: 250ms}
    breaker: {window: 10s, min_requests: 1000, failure_bps: 9000, consecutive_failures: 1000, cooldown: 1s, probes_per_second: 20, close_after: 1, ramp_double: 3s}
    limit: {requests: {capacity: 1000000, refill_tokens: 1000000, refill_interval: 1s}, model_tokens: {capacity: 1000000000, refill_tokens: 1000000000, refill_interval: 1s}, max_concurrency: 10000, tenant_share_bps: 10000}
    allowed_networks: [127.0.0.0/8]
`, name, upstream)
	}
	config := "destinations:" + stanza("openai", upstream) + stanza("generic", "localhost:"+port) + `
price_tables: [{name: p, unknown_usd_micros_per_million: 1000000, prices: [{model: "tiny*", input_usd_micros_per_million: 1000000, output_usd_micros_per_million: 1000000}]}]
budgets: [{name: money, spend_usd_micros: 1000000000000000, window: MONTH, keyed_by: [TENANT]}]
`
	file := filepath.Join(dir, "stoplog.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, "", err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	cmd := pinned(1, binary, "up", "--config", file, "--data", filepath.Join(dir, "data"), "--listen", addr, "--admin", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	for range 200 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return cmd, addr, nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return cmd, "", errors.New("it does not listen after 5 s")
}
