package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
	"github.com/stoplog/stoplog/receipts/segment"
	"github.com/stoplog/stoplog/receipts/vault"
)

const childDir = "STOPLOG_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

func openDir(dir string) (*segment.Log, *ledger.Local, error) {
	log, err := segment.Open(context.Background(), segment.Options{Dir: dir, SegmentBytes: 256 << 10})
	if err != nil {
		return nil, nil, err
	}
	v, err := vault.Open(vault.Options{Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.Open(log, v, ledger.Options{})
	return log, l, err
}

// child is a life that works until it is killed. It says what was acknowledged, after it was.
func child(dir string) {
	_, l, err := openDir(dir)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	say := func(id stoplog.OperationID, s string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(id, s)
	}
	ctx := context.Background()
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := ledger.NewID()
				e := &stoplog.Effect{Class: stoplog.ClassWrite, Destination: "d", Actor: stoplog.Actor{Tenant: "t"}, Digest: [32]byte{1}}
				p := ledger.Proposal{
					ID: id, Key: l.Key("t", "d", "", string(id)), KeyTTL: time.Hour, Effect: e, Exact: &stoplog.Exact{Body: []byte(id)},
				}
				if w == 0 {
					if _, err := l.Keep(ctx, p, ledger.Hold{Verdict: stoplog.Hold}, &receipts.Receipt{}); err != nil {
						return
					}
					say(id, "proposed")
					if i%2 == 0 {
						continue
					}
				}
				if _, err := l.Begin(ctx, p, time.Now(), &receipts.Receipt{}); err != nil {
					return
				}
				say(id, "dispatching")
				if err := l.Finish(ctx, id, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 200, Body: []byte(id)}, &receipts.Receipt{}); err != nil {
					return
				}
				say(id, "confirmed")
			}
		}()
	}
	select {}
}

// kill -9 at many points of a real process on a real disk: what it said was acknowledged is there, and the log verifies.
func TestKill(t *testing.T) {
	rounds := 6
	if os.Getenv("STOPLOG_LONG") != "" {
		rounds = 60
	}
	dir := t.TempDir()
	acked := map[stoplog.OperationID]string{}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			id, state, _ := strings.Cut(lines.Text(), " ")
			if id == "error" {
				t.Fatal(lines.Text())
			}
			acked[stoplog.OperationID(id)] = state
			if n == 7*round+5 {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		check(t, dir, acked)
	}
}

func check(t *testing.T, dir string, acked map[stoplog.OperationID]string) {
	t.Helper()
	log, l, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	legal := map[string]string{ // what may have become of it besides: the next step was durable, its word was not heard
		"proposed": "proposed unknown confirmed", "dispatching": "unknown confirmed", "confirmed": "confirmed",
	}
	for id, state := range acked {
		op, err := l.Get(t.Context(), id)
		if err != nil || !strings.Contains(legal[state], op.State.String()) {
			t.Errorf("%s was %s and is %s, %v", id, state, op.State, err)
		}
		if state == "proposed" {
			b, err := l.Bytes(t.Context(), id)
			if err != nil || string(b.Body) != string(id) {
				t.Errorf("bytes of %s: %v", id, err)
			}
		}
		if state == "confirmed" {
			a, err := l.Answer(t.Context(), id)
			if err != nil || string(a.Body) != string(id) {
				t.Errorf("answer of %s: %v", id, err)
			}
		}
	}
	pub, err := log.Identity()
	if err != nil {
		t.Fatal(err)
	}
	r, err := receipts.Verify(t.Context(), dir, pub)
	if err != nil || r.Err() != nil {
		t.Errorf("verify: %v, %v", err, r.Err())
	}
}
