package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/receipts"
)

// childEnv makes the test binary play a sidecar in a process of its own, so that it can be killed.
const childEnv = "STOPLOG_TEST_SIDECAR"

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		os.Exit(sidecarMain(strings.Split(args, "\n")))
	}
	os.Exit(m.Run())
}

func sidecarMain(args []string) int {
	a, err := app.Start(context.Background(), app.Options{
		Config: []string{args[0]}, Data: args[1], Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Tenant: "acme", LogOut: io.Discard,
	})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(a.URL(""))
	_ = a.Wait()
	return 0
}

// process is a sidecar that can be killed.
type process struct {
	cmd *exec.Cmd
	url string
}

func spawn(t *testing.T, config, data string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+config+"\n"+data)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	p.url = strings.TrimSuffix(strings.TrimSpace(line), "/")
	if err != nil || !strings.HasPrefix(p.url, "http://") {
		t.Fatalf("the sidecar says %q (%v)", line, err)
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// Killed at any point of a write, the sidecar loses no record of it: what may have left is found unknown and is not sent again
// (MervinPraison/PraisonAI#3386), what was confirmed is answered from the record, and the log verifies.
func TestCrashDuringWrites(t *testing.T) {
	var arrived, answered atomic.Int64
	block := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b := string(drain(r))
		arrived.Add(1)
		if strings.Contains(b, "hang") {
			<-block
		}
		answered.Add(1)
		io.WriteString(w, `{"id":"`+r.Header.Get("Idempotency-Key")+`"}`)
	})
	defer close(block)
	dir := t.TempDir()
	data, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	config := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(config, []byte("destinations:"+dest{name: "generic", url: url}.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(p *process, key, body string) answer {
		return doCtx(t, context.Background(), "POST", p.url+"/generic/items", body, "Idempotency-Key", key)
	}
	p := spawn(t, config, data)
	for i := range 5 {
		if a := write(p, fmt.Sprint("done-", i), `{"a":1}`); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	go func() { // the connection breaks when the process dies; nothing may be asserted here
		req, _ := http.NewRequest("POST", p.url+"/generic/items", strings.NewReader(`{"a":"hang"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer xoxb-test")
		req.Header.Set("Idempotency-Key", "lost")
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "the write has reached the vendor", func() bool { return arrived.Load() == 6 })
	p.kill()

	p = spawn(t, config, data)
	if a := write(p, "lost", `{"a":"hang"}`); a.problem(t).Reason != "outcome_unknown" {
		t.Errorf("the lost write again: %d %s, want outcome_unknown", a.status, a.body)
	}
	for i := range 5 {
		key := fmt.Sprint("done-", i)
		if a := write(p, key, `{"a":1}`); a.body != `{"id":"`+key+`"}` || a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s again: %d %s, want the recorded answer", key, a.status, a.body)
		}
	}
	if n := arrived.Load(); n != 6 {
		t.Errorf("%d requests at the vendor, want 6", n)
	}
	p.kill()
	verifies(t, data)
	unknown := 0
	r := receipts.OpenReader(data)
	for e, err := range r.Select(t.Context(), receipts.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Receipt.Type == receipts.TypeOpUnknown {
			unknown++
		}
	}
	if unknown != 1 {
		t.Errorf("%d operations were found unknown, want 1", unknown)
	}
}

// Many lives, each killed at a moment that nobody chose: the vendor never sees an operation twice, and every answer that an
// agent got is on record.
func TestCrashTrials(t *testing.T) {
	trials := 8
	if os.Getenv("STOPLOG_LONG") != "" {
		trials = 80
	}
	seen := make(chan string, 100_000)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		seen <- r.Header.Get("Idempotency-Key")
		io.WriteString(w, "{}")
	})
	dir := t.TempDir()
	data, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	config := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(config, []byte("destinations:"+dest{name: "generic", url: url}.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]bool{}
	for trial := range trials {
		p := spawn(t, config, data)
		done := make(chan string, 10_000)
		stop := make(chan struct{})
		for worker := range 4 {
			go func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("t%d-w%d-%d", trial, worker, i)
					req, _ := http.NewRequest("POST", p.url+"/generic/items", strings.NewReader(`{"a":1}`))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Idempotency-Key", key)
					resp, err := client.Do(req)
					if err != nil {
						return
					}
					resp.Body.Close()
					if resp.StatusCode == 200 {
						done <- key
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
		}
		time.Sleep(time.Duration(20+trial*7%60) * time.Millisecond) // a moment of its own for each life
		p.kill()
		close(stop)
		for more := true; more; {
			select {
			case k := <-done:
				acknowledged[k] = true
			default:
				more = false
			}
		}
	}
	// One more life asks for everything that was acknowledged: it must be on record, and nothing may be sent again.
	before := map[string]int{}
	for len(seen) > 0 {
		before[<-seen]++
	}
	p := spawn(t, config, data)
	for k := range acknowledged {
		a := doCtx(t, context.Background(), "POST", p.url+"/generic/items", `{"a":1}`, "Idempotency-Key", k, "Authorization", "")
		if a.status != 200 || a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s was acknowledged, but is %d %s", k, a.status, a.body)
		}
	}
	for len(seen) > 0 {
		before[<-seen]++
	}
	for k, n := range before {
		if n > 1 {
			t.Errorf("%s reached the vendor %d times", k, n)
		}
	}
	p.kill()
	verifies(t, data)
	if len(acknowledged) < trials {
		t.Errorf("only %d writes were acknowledged: the trials prove nothing", len(acknowledged))
	}
}

// verifies proves the receipts of a data directory offline.
func verifies(t *testing.T, data string) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(data, "identity.pub"))
	if err != nil {
		t.Fatal(err)
	}
	report, err := receipts.Verify(t.Context(), data, strings.TrimSpace(string(key)))
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		t.Errorf("the receipts do not verify: %v", err)
	}
}
