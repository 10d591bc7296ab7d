package segment

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
	"github.com/stoplog/stoplog/receipts/frame"
)

const small = 64 << 10 // bytes of a test's segments

func open(t testing.TB, m *disktest.Memory) *Log {
	t.Helper()
	l, err := Open(context.Background(), Options{Dir: "/data", FS: m, SegmentBytes: small})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func rec(i int) *receipts.Receipt {
	return &receipts.Receipt{Type: receipts.TypeDecision, Host: fmt.Sprint("host-", i)}
}

func add(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		_, err := l.Append(context.Background(), rec(i))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func verify(t testing.TB, m *disktest.Memory) *receipts.Report {
	t.Helper()
	pub, err := m.ReadFile("test", "/data/identity.pub")
	if err != nil {
		t.Fatal(err)
	}
	r, err := receipts.VerifyFS(context.Background(), m.View("/data"), string(pub))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func clean(t testing.TB, m *disktest.Memory) *receipts.Report {
	t.Helper()
	r := verify(t, m)
	if r.Err() != nil {
		t.Fatalf("verify: %v", r.Err())
	}
	return r
}

// kinds are the kinds that verify found, notices included.
func kinds(r *receipts.Report) string {
	var s []string
	for _, f := range r.Findings {
		s = append(s, string(f.Kind))
	}
	return strings.Join(s, " ")
}

// hosts are the hosts of all receipts in all logs.
func hosts(t testing.TB, m *disktest.Memory) []string {
	t.Helper()
	var list []string
	for e, err := range receipts.NewReader(m.View("/data")).Select(context.Background(), receipts.Query{Types: []receipts.Type{receipts.TypeDecision}}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Receipt.Host)
	}
	return list
}

// commits counts the groups in the first segment of the first log.
func commits(t testing.TB, m *disktest.Memory) (n int) {
	t.Helper()
	f, err := m.Open("test", segmentOf(t, m, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	s, err := frame.NewReader(f, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, err = s.Next(); err == nil; _, err = s.Next() {
		n++
	}
	return n
}

func TestAppendCloseReopen(t *testing.T) {
	m := disktest.New()
	l := open(t, m)
	pos, err := l.Append(t.Context(), rec(1), rec(2))
	if err != nil || pos[0].Seq != 1 || pos[1].Seq != 2 || pos[0].Log != l.Origin() {
		t.Fatalf("got %+v, %v", pos, err)
	}
	p3, err := l.Enqueue(rec(3))
	if err != nil || p3.Seq != 3 {
		t.Fatalf("got %+v, %v", p3, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(t.Context(), rec(4))
	if stoplog.ReasonOf(err) != stoplog.ReasonEvidenceUnavailable {
		t.Errorf("append after close: %v", err)
	}
	e, err := receipts.NewReader(m.View("/data")).Get(t.Context(), pos[1].Log, 2)
	if err != nil || e.Position() != pos[1] {
		t.Errorf("got %+v, %v; want %+v", e, err, pos[1])
	}
	l = open(t, m)
	if l.Origin() == pos[0].Log {
		t.Error("two lives share an origin")
	}
	add(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := clean(t, m); r.Logs != 2 || r.Records != 8 || len(r.Findings) != 0 {
		t.Errorf("got %+v", r)
	}
}

// The rules of time: an enqueued receipt is durable within the interval, an empty COMMIT settles a quiet log.
func TestIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l := open(t, m)
		defer l.Close()
		time.Sleep(time.Second)
		_, err := l.Enqueue(rec(1))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(49 * time.Millisecond)
		synctest.Wait()
		if n := len(hosts(t, m.PowerCut(rand.New(rand.NewSource(1))))); n != 0 {
			t.Errorf("after 49 ms: %d durable", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := len(hosts(t, m.Killed())); n != 1 {
			t.Errorf("after 51 ms: %d durable", n)
		}
		before := commits(t, m.Killed())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := commits(t, m.Killed()); got != before+1 {
			t.Errorf("%d COMMITs after 100 ms, want %d", got, before+1)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := commits(t, m.Killed()); got != before+1 {
			t.Errorf("%d COMMITs after a quiet minute, want %d", got, before+1)
		}
	})
}

// Many writers share a sync and keep one order (librefang/librefang#7702, anthony-chaudhary/fak#5876).
func TestConcurrentAppends(t *testing.T) {
	m := disktest.New()
	l := open(t, m)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			for range 5 {
				_, err := l.Append(t.Context(), rec(i), rec(i))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := clean(t, m); r.Records != 1002 {
		t.Errorf("%d records", r.Records)
	}
}

// A second writer is refused while the first lives, and follows it afterwards.
func TestSecondWriterRefused(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Dir: dir})
	if !errors.Is(err, disk.ErrLocked) {
		t.Fatalf("second writer: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := b.Identity()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := receipts.Verify(t.Context(), dir, pub)
	if err != nil || r.Err() != nil || r.Logs != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSegmentsRollOver(t *testing.T) {
	m := disktest.New()
	l := open(t, m)
	add(t, l, 700)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name := range m.Files("/data/log") {
		if strings.HasSuffix(name, ".seg") {
			n++
		}
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
	}
	if n < 3 {
		t.Errorf("%d segments", n)
	}
	clean(t, m)
	if got := hosts(t, m); len(got) != 700 {
		t.Errorf("%d receipts", len(got))
	}
	l = open(t, m)
	add(t, l, 1)
	l.Close()
	clean(t, m)
}

func TestRollsIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l, err := Open(context.Background(), Options{Dir: "/data", FS: m, SegmentBytes: small, MaxRecords: 50, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			add(t, l, 60)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(8 * 24 * time.Hour)
		add(t, l, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		r := clean(t, m)
		if r.Logs < 7 || len(hosts(t, m)) != 301 {
			t.Errorf("%d logs, %d receipts", r.Logs, len(hosts(t, m)))
		}
	})
}

// A failed write ends the log; the next receipt links to the last durable one, and the verifier calls it a failed write
// (zeroclaw-labs/zeroclaw#10359).
func TestFailedWrite(t *testing.T) {
	for _, op := range []string{"segment.write", "segment.sync"} {
		t.Run(op, func(t *testing.T) {
			m := disktest.New()
			l := open(t, m)
			add(t, l, 3)
			var failed atomic.Bool
			m.SetFault(func(o, _ string) error {
				if o == op && !failed.Swap(true) {
					return syscall.EIO
				}
				return nil
			})
			_, err := l.Append(t.Context(), rec(99))
			if stoplog.ReasonOf(err) != stoplog.ReasonEvidenceUnavailable || !errors.Is(err, syscall.EIO) {
				t.Fatalf("got %v", err)
			}
			if _, err := l.Append(t.Context(), rec(100)); err == nil || l.Err() == nil {
				t.Fatal("the log goes on after a failed write")
			}
			if _, err := l.Enqueue(rec(100)); err == nil {
				t.Fatal("the log goes on after a failed write")
			}
			if err := l.Close(); !errors.Is(err, syscall.EIO) {
				t.Errorf("close: %v", err)
			}
			l = open(t, m)
			add(t, l, 1)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			r := clean(t, m)
			if !strings.Contains(kinds(r), string(receipts.FailedWrite)) {
				t.Errorf("found %s", kinds(r))
			}
			want := 4
			if op == "segment.sync" { // written, and the sync failed: it may be there or not
				want = 5
			}
			if got := hosts(t, m); len(got) != want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestStuckDiskEndsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l := open(t, m)
		release := make(chan struct{})
		m.SetFault(func(op, _ string) error {
			if op == "segment.sync" {
				<-release
			}
			return nil
		})
		at := time.Now()
		_, err := l.Append(t.Context(), rec(1))
		if stoplog.ReasonOf(err) != stoplog.ReasonEvidenceUnavailable || time.Since(at) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(at), err)
		}
		close(release)
		if l.Close() == nil {
			t.Error("closed as if nothing had happened")
		}
	})
}

// rm of the live file: write and sync would go on to succeed, so its name is watched.
func TestLiveFileRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disktest.New()
		l := open(t, m)
		defer l.Close()
		add(t, l, 2)
		m.Remove("test", filepath.Join("/data/log", l.life.name, segmentName(0)))
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if l.Err() == nil {
			t.Error("not noticed after 2 s")
		}
	})
}

// No permission, no space, no key at the start: Open says so at once and the directory stays usable.
func TestOpenFails(t *testing.T) {
	for _, op := range []string{"log.mkdir", "log.lock", "identity.write", "segment.create", "segment.allocate", "segment.header", "segment.write", "segment.sync"} {
		m := disktest.New()
		m.SetFault(func(o, _ string) error {
			if o == op {
				return syscall.EACCES
			}
			return nil
		})
		_, err := Open(t.Context(), Options{Dir: "/data", FS: m, SegmentBytes: small})
		if !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s: got %v", op, err)
		}
		m.SetFault(nil)
		l, err := Open(t.Context(), Options{Dir: "/data", FS: m, SegmentBytes: small})
		if err != nil {
			t.Fatalf("after %s: %v", op, err)
		}
		add(t, l, 1)
		l.Close()
		clean(t, m)
	}
}

func TestIdentityKeyLost(t *testing.T) {
	m := disktest.New()
	open(t, m).Close()
	m.Remove("test", "/data/identity.key")
	_, err := Open(t.Context(), Options{Dir: "/data", FS: m})
	if err == nil || !strings.Contains(err.Error(), "identity.key is missing") {
		t.Errorf("got %v", err)
	}
}
