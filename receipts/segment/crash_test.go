package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
	"github.com/stoplog/stoplog/receipts/frame"
)

// trials is how many seeded trials a simulation runs: a tenth, or all with STOPLOG_LONG=1.
func trials(all int) int {
	if os.Getenv("STOPLOG_LONG") != "" {
		return all
	}
	return all / 10 / raceFactor
}

// Power cuts at any operation, leaving any part of what was not synced, down to single sectors: no acknowledged record is
// lost, no group is half there, no torn tail is taken for damage, the log opens and goes on, and verify agrees.
func TestPowerCuts(t *testing.T) {
	for half := range 2 {
		t.Run(fmt.Sprint("half ", half), func(t *testing.T) {
			t.Parallel()
			for seed := half; seed < trials(6000); seed += 2 {
				powerCuts(t, seed)
			}
		})
	}
}

func powerCuts(t *testing.T, seed int) {
	r := rand.New(rand.NewSource(int64(seed)))
	m := disktest.New()
	acked := map[string]bool{}
	for life := range 3 {
		m = liveAndDie(t, r, m, acked, fmt.Sprintf("%d.%d", seed, life))
	}
	l, err := Open(context.Background(), Options{Dir: "/data", FS: m, SegmentBytes: small})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if r := verify(t, m); r.Err() != nil {
		t.Fatalf("seed %d: verify: %v", seed, r.Err())
	}
	have := map[string]bool{}
	for _, h := range hosts(t, m) {
		have[h] = true
	}
	for h := range acked {
		if !have[h] {
			t.Fatalf("seed %d: acknowledged %s is lost", seed, h)
		}
	}
	for h := range have {
		if pair, ok := strings.CutSuffix(h, "a"); ok && !have[pair+"b"] {
			t.Fatalf("seed %d: half of a group: %s", seed, h)
		}
	}
}

// liveAndDie runs one process life that loses power at a random operation, or is killed.
func liveAndDie(t *testing.T, r *rand.Rand, m *disktest.Memory, acked map[string]bool, tag string) *disktest.Memory {
	budget := r.Intn(120)
	var mu sync.Mutex
	var after *disktest.Memory
	fork := rand.New(rand.NewSource(r.Int63()))
	kill := r.Intn(3) == 0
	m.SetFault(func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if budget--; budget >= 0 {
			return nil
		}
		if after == nil {
			if after = m.PowerCut(fork); kill {
				after = m.Killed()
			}
		}
		return errors.New("the machine is off")
	})
	l, err := Open(context.Background(), Options{Dir: "/data", FS: m, SegmentBytes: small})
	if err == nil {
		pad := strings.Repeat("x", r.Intn(3000))
		for i := range r.Intn(30) {
			a, b := rec(i), rec(i)
			a.Host, b.Host = fmt.Sprintf("%s.%da", tag, i), fmt.Sprintf("%s.%db", tag, i)
			a.Rule = pad
			if r.Intn(4) == 0 {
				_, _ = l.Enqueue(&receipts.Receipt{Type: receipts.TypeDecision, Host: "enqueued"})
			}
			_, err := l.Append(context.Background(), a, b)
			if err == nil {
				mu.Lock()
				acked[a.Host], acked[b.Host] = true, true
				mu.Unlock()
			}
		}
		_ = l.Close()
	} else if after == nil {
		t.Fatalf("%s: %v", tag, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if after == nil {
		after = m.PowerCut(fork)
	}
	after.SetFault(nil)
	return after
}

// segmentOf finds the segment file of the n-th log.
func segmentOf(t testing.TB, m *disktest.Memory, n, number int) string {
	t.Helper()
	names, err := incarnations(m, "/data/log")
	if err != nil || n >= len(names) {
		t.Fatalf("log %d of %v, %v", n, names, err)
	}
	return filepath.Join("/data/log", names[n], segmentName(int64(number)))
}

// nine makes a log with nine receipts in groups of their own, as a crash leaves it, and the offsets of their frames.
func nine(t testing.TB) (*disktest.Memory, []int64) {
	t.Helper()
	m := disktest.New()
	l := open(t, m)
	add(t, l, 8) // with the birth: records 0 to 8
	l.signer.flush()
	var offsets []int64
	killed := m.Killed()
	l.Close()
	f, err := killed.Open("test", segmentOf(t, killed, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	s, err := frame.NewScanner(f, -1, frame.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	for g, err := s.Next(); err == nil; g, err = s.Next() {
		if len(g.Leaves) > 0 {
			offsets = append(offsets, g.Offset)
		}
	}
	if len(offsets) != 9 {
		t.Fatalf("%d groups", len(offsets))
	}
	return killed, offsets
}

// A torn tail never blocks a start and never swallows what comes after; damage in the middle is loud (pmcfadin/cqlite#1390,
// amelielabs/amelie#17, samyama-ai/samyama-graph#1335).
func TestTornTail(t *testing.T) {
	for name, cut := range map[string]int64{"inside the length": 6, "inside the record": 40, "before the COMMIT": -10} {
		t.Run(name, func(t *testing.T) {
			m, at := nine(t)
			m.Remove("test", filepath.Join(filepath.Dir(segmentOf(t, m, 0, 0)), checkpointName)) // the power went before it was signed
			m.Edit(segmentOf(t, m, 0, 0), func(b []byte) []byte {
				end := at[8] + cut
				if cut < 0 {
					end = int64(len(bytes.TrimRight(b, "\x00"))) + cut
				}
				return b[:end]
			})
			l := open(t, m)
			add(t, l, 2)
			m = m.Killed()
			l.Close()
			open(t, m).Close()
			r := clean(t, m)
			if got := hosts(t, m); len(got) != 7+2 {
				t.Errorf("%d receipts are readable: %v", len(got), got)
			}
			if !strings.Contains(kinds(r), string(receipts.TornTail)) {
				t.Errorf("found %s", kinds(r))
			}
			aside := false
			for f := range m.Files("/data/log") {
				aside = aside || strings.Contains(f, "torn-00000000-")
			}
			if !aside {
				t.Error("the torn bytes are not kept")
			}
		})
	}
	t.Run("a byte of record 5", func(t *testing.T) {
		m, at := nine(t)
		m.Edit(segmentOf(t, m, 0, 0), func(b []byte) []byte { b[at[5]+60] ^= 1; return b })
		_, err := Open(t.Context(), Options{Dir: "/data", FS: m, SegmentBytes: small})
		var d *Damage
		if !errors.As(err, &d) || d.File != segmentOf(t, m, 0, 0) || d.Offset != at[5] {
			t.Errorf("got %v, want damage at %d", err, at[5])
		}
	})
}

// A flip in the last group cannot be told from a torn tail by the file alone; the empty COMMIT that follows within
// 100 ms, and the last checkpoint, can.
func TestDamageToTheLastGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l := open(t, m)
		defer l.Close()
		add(t, l, 3)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		m = m.Killed()
		seg := segmentOf(t, m, 0, 0)
		m.Edit(seg, func(b []byte) []byte { b[bytes.LastIndex(b, []byte("host-2"))] ^= 1; return b })
		_, err := Open(context.Background(), Options{Dir: "/data", FS: m, SegmentBytes: small})
		var d *Damage
		if !errors.As(err, &d) || d.File != seg {
			t.Errorf("got %v", err)
		}
		m.Remove("test", filepath.Join(filepath.Dir(seg), checkpointName))
		_, err = Open(context.Background(), Options{Dir: "/data", FS: m, SegmentBytes: small})
		if !errors.As(err, &d) || d.File != seg {
			t.Errorf("without checkpoint: got %v", err)
		}
	})
}

// Fewer records than were signed: rolled back.
func TestRollback(t *testing.T) {
	m, at := nine(t)
	seg := segmentOf(t, m, 0, 0)
	l := open(t, m.Killed())
	l.Close()
	m = l.fs.(*disktest.Memory)
	m.Edit(seg, func(b []byte) []byte { return b[:at[2]] })
	for name := range m.Files("/data/log") { // the newer log goes too
		if !strings.HasPrefix(name, filepath.Dir(seg)) {
			m.Remove("test", name)
		}
	}
	_, err := Open(t.Context(), Options{Dir: "/data", FS: m, SegmentBytes: small})
	var d *Damage
	if !errors.As(err, &d) || !strings.Contains(err.Error(), "signed") {
		t.Errorf("got %v", err)
	}
}

// A full disk: the error comes at once, nothing acknowledged is lost, outcomes of what is under way still fit, and the log
// resumes by itself when there is space.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l := open(t, m)
		m.SetCapacity(m.Used()) // no second segment
		acked := 0
		var err error
		for i := 0; err == nil; i++ {
			_, err = l.Append(t.Context(), rec(i))
			if err == nil {
				acked++
			}
		}
		if stoplog.ReasonOf(err) != stoplog.ReasonEvidenceUnavailable || !errors.Is(err, syscall.ENOSPC) || l.Err() == nil {
			t.Fatalf("got %v, %v", err, l.Err())
		}
		outcomes := 0
		for err = nil; err == nil && outcomes < 1000; outcomes++ {
			_, err = l.Append(t.Context(), &receipts.Receipt{Type: receipts.TypeOpOutcome, Host: "outcome"})
		}
		if outcomes < small/8/500 {
			t.Errorf("only %d outcomes fit after the disk was full", outcomes)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if l.Err() == nil {
			t.Error("takes effects without space")
		}
		m.SetCapacity(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if l.Err() != nil {
			t.Errorf("did not resume: %v", l.Err())
		}
		add(t, l, 3)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		clean(t, m)
		if got := len(hosts(t, m)); got != acked+3 {
			t.Errorf("%d receipts, want %d", got, acked+3)
		}
	})
}

// Space that cannot be reserved runs out in the middle of a write: the file is cut back to the last COMMIT, enqueued
// receipts keep their turn, and a log.gap tells about the places that were given out.
func TestNoSpaceInAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l := open(t, m)
		add(t, l, 2)
		var full bool
		var mu sync.Mutex
		m.SetFault(func(op, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			if full && (op == "segment.write" || op == "segment.allocate") {
				return syscall.ENOSPC
			}
			return nil
		})
		set := func(on bool) {
			mu.Lock()
			defer mu.Unlock()
			full = on
		}
		set(true)
		p, err := l.Enqueue(&receipts.Receipt{Type: receipts.TypeDecision, Host: "waits"})
		if err != nil || p.Seq != 3 {
			t.Fatal(p, err)
		}
		_, err = l.Append(t.Context(), &receipts.Receipt{Type: receipts.TypeDecision, Host: "refused"})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
		_, err = l.Append(t.Context(), rec(8))
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
		_, err = l.Append(t.Context(), &receipts.Receipt{Type: receipts.TypeOpOutcome})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("an outcome without space: %v", err)
		}
		set(false)
		time.Sleep(time.Second)
		synctest.Wait()
		add(t, l, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		r := clean(t, m)
		if kinds(r) != string(receipts.FailedWrite) {
			t.Errorf("found %s", kinds(r))
		}
		if got := fmt.Sprint(hosts(t, m)); got != "[host-0 host-1 waits host-0]" {
			t.Errorf("got %s", got)
		}
	})
}
