package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// figures of one run.
type figures struct {
	rate     float64 // requests per second
	cpu      float64 // µs of the proxy's CPU per request
	p50, p99 float64 // µs
}

// run sends requests over conns connections for d, each waiting for its answer (closed loop).
func run(t contender, c benchCase, d time.Duration) (figures, error) {
	before, err := cpuTime(t.cmd.Process.Pid)
	if err != nil {
		return figures{}, err
	}
	path := t.prefix[strings.HasPrefix(c.path, "/v1/")] + c.path
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	begin := time.Now()
	end := begin.Add(d)
	for i := range c.conns {
		wg.Go(func() {
			lat, err := drive(t.addr, c, path, i, end)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, lat...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	if failed != nil {
		return figures{}, failed
	}
	after, err := cpuTime(t.cmd.Process.Pid)
	if err != nil {
		return figures{}, err
	}
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1000 }
	return figures{
		rate: float64(len(all)) / took.Seconds(), cpu: float64((after - before).Microseconds()) / float64(len(all)), p50: at(.5), p99: at(.99),
	}, nil
}

// drive is one connection. Each body is different, so that no two writes are taken for one.
func drive(addr string, c benchCase, path string, worker int, end time.Time) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	var out []time.Duration
	buf := make([]byte, 64<<10)
	for n := 0; ; n++ {
		req := request(buf[:0], c, path, worker, n)
		t := time.Now()
		if t.After(end) {
			return out, nil
		}
		if _, err := conn.Write(req); err != nil {
			return out, err
		}
		if err := readAnswer(r); err != nil {
			return out, err
		}
		out = append(out, time.Since(t))
	}
}

func request(b []byte, c benchCase, path string, worker, n int) []byte {
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", c.method, path)
	if c.body == 0 {
		return append(b, "\r\n"...)
	}
	id := fmt.Sprintf("%04d-%08d-%d", worker, n, time.Now().UnixNano())
	head := `{"model":"tiny","max_tokens":256,"messages":[{"role":"system","content":"You are terse."},{"role":"user","id":"` + id + `","content":"`
	fill := max(0, c.body-len(head)-4)
	b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(head)+fill+4, head)
	for fill > 0 {
		k := min(fill, len(words))
		b = append(b, words[:k]...)
		fill -= k
	}
	return append(b, `"}]}`...)
}

var words = strings.Repeat("the quick brown fox jumps over the lazy dog and ", 20)

func readAnswer(r *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			rest := make([]byte, min(r.Buffered(), 700))
			_, _ = io.ReadFull(r, rest)
			return fmt.Errorf("answer %q %s", line, rest)
		}
		if len(line) == 2 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("answer without a length")
	}
	_, err := r.Discard(length)
	return err
}

// cpuTime is user and system time of a process so far.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	u, err1 := strconv.ParseInt(f[11], 10, 64)
	s, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	return time.Duration(u+s) * 10 * time.Millisecond, nil // clock ticks are 1/100 s on Linux
}
