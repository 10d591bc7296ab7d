package receipts_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
	"github.com/stoplog/stoplog/receipts/frame"
	"github.com/stoplog/stoplog/receipts/segment"
)

func openLog(t testing.TB, m *disktest.Memory) *segment.Log {
	t.Helper()
	l, err := segment.Open(context.Background(), segment.Options{Dir: "/data", FS: m, SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// life writes a log of n decisions and closes it.
func life(t testing.TB, m *disktest.Memory, n int) string {
	t.Helper()
	l := openLog(t, m)
	c := receipts.NewCommitter([32]byte{9})
	for i := range n {
		_, err := l.Append(context.Background(), &receipts.Receipt{
			Type: receipts.TypeDecision, Actor: stoplog.Actor{Tenant: "acme"}, Decided: true, Verdict: stoplog.Deny,
			Reason: stoplog.ReasonPolicyDenied, Request: receipts.Commitment{Hash: c.Commit("req", []byte{byte(i)})},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Origin()
}

func identity(t testing.TB, m *disktest.Memory) string {
	t.Helper()
	b, err := m.ReadFile("test", "/data/identity.pub")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func verify(t testing.TB, m *disktest.Memory) *receipts.Report {
	t.Helper()
	r, err := receipts.VerifyFS(context.Background(), m.View("/data"), identity(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// faults are the findings that are no notices, as "kind seq file".
func faults(r *receipts.Report) string {
	var list []string
	for _, f := range r.Findings {
		if !f.Notice {
			list = append(list, fmt.Sprintf("%s %d %s", f.Kind, f.Seq, filepath.Base(f.File)))
		}
	}
	return strings.Join(list, "; ")
}

func seg(origin string, n int) string {
	return fmt.Sprintf("/data/log/%s/%08d.seg", filepath.Base(origin), n)
}

// One flipped bit in the body's commitment, the tenant or the decision of record 5 is found at 5
// (TokenDanceLab/AgentHub#1541: the hash covered ids only), also by somebody who mends the checksum.
func TestEditIsFoundWhereItIs(t *testing.T) {
	for _, what := range []string{`"c":"h1:`, `"ten":"`, `"dec":"`} {
		for _, mend := range []bool{false, true} {
			t.Run(fmt.Sprint(what, " mended ", mend), func(t *testing.T) {
				m := disktest.New()
				origin := life(t, m, 8)
				m.Edit(seg(origin, 0), func(b []byte) []byte {
					at := bytes.Index(b, []byte(`"seq":5,`))
					start := bytes.LastIndex(b[:at], []byte(`{"dec"`))
					i := start + bytes.Index(b[start:], []byte(what)) + len(what)
					b[i] ^= 1
					if mend {
						f := start - frame.Overhead
						n := bytes.IndexByte(b[at:], '}') + at + 1
						tab := crc32.MakeTable(crc32.Castagnoli)
						crc := crc32.Update(crc32.Checksum(b[f:f+20], tab), tab, b[start:n])
						b[f+20], b[f+21], b[f+22], b[f+23] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
					}
					return b
				})
				if got := faults(verify(t, m)); got != "edited 5 00000000.seg" {
					t.Errorf("got %s", got)
				}
			})
		}
	}
}

// Somebody who makes the whole log anew, with all checksums and roots, still lacks the key.
func TestRewrittenLog(t *testing.T) {
	m := disktest.New()
	origin := life(t, m, 8)
	m.Edit(seg(origin, 0), func(b []byte) []byte {
		s, err := frame.NewScanner(bytes.NewReader(b), int64(len(b)), frame.Tree{})
		if err != nil {
			t.Fatal(err)
		}
		out := s.Header().Append(nil)
		var tree frame.Tree
		for g, err := s.Next(); err == nil; g, err = s.Next() {
			for _, leaf := range g.Leaves {
				leaf = bytes.Replace(leaf, []byte(`"dec":"deny"`), []byte(`"dec":"park"`), 1)
				out = frame.AppendLeaf(out, s.Header().Salt, tree.Size(), leaf)
				tree.Add(tlog.RecordHash(leaf))
			}
			out = frame.AppendCommit(out, s.Header().Salt, frame.Commit{Size: tree.Size(), Root: tree.Root(), Durable: g.First})
		}
		return out
	})
	if got := faults(verify(t, m)); got != "edited -1 ." {
		t.Errorf("got %s", got)
	}
	life(t, disktest.New(), 1)
	other := disktest.New()
	life(t, other, 1)
	r, err := receipts.VerifyFS(t.Context(), m.View("/data"), identity(t, other))
	if err != nil || !strings.Contains(faults(r), "foreign 0") {
		t.Errorf("with another identity: %s, %v", faults(r), err)
	}
	if _, err := receipts.VerifyFS(t.Context(), m.View("/data"), ""); err == nil {
		t.Error("verify without a pinned key")
	}
}

// Deleting or renaming segments is named (tinylabscom/mvm#2365, #2379).
func TestMissingSegments(t *testing.T) {
	tests := []struct {
		name string
		do   func(m *disktest.Memory, origin string)
		want string
	}{
		{"oldest deleted", func(m *disktest.Memory, o string) { m.Remove("t", seg(o, 0)) }, "missing_segment 0 00000000.seg"},
		{"middle deleted", func(m *disktest.Memory, o string) { m.Remove("t", seg(o, 1)) }, "missing_segment N 00000001.seg"},
		{"last deleted", func(m *disktest.Memory, o string) { m.Remove("t", seg(o, 3)) }, "truncated N 00000002.seg"},
		{"renamed", func(m *disktest.Memory, o string) { m.Rename("t", seg(o, 1), seg(o, 7)) }, "missing_segment N 00000001.seg"},
		{"swapped", func(m *disktest.Memory, o string) {
			m.Rename("t", seg(o, 1), seg(o, 9))
			m.Rename("t", seg(o, 2), seg(o, 1))
			m.Rename("t", seg(o, 9), seg(o, 2))
		}, "missing_segment N 00000001.seg"},
		{"tail cut", func(m *disktest.Memory, o string) {
			m.Edit(seg(o, 3), func(b []byte) []byte { return b[:frame.HeaderSize] })
		}, "truncated N 00000003.seg"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := disktest.New()
			life(t, m, 2)
			origin := life(t, m, 780)
			if _, err := m.ReadFile("test", seg(origin, 3)); err != nil {
				t.Fatal(err)
			}
			tt.do(m, origin)
			got := faults(verify(t, m))
			kind, file, ok := strings.Cut(tt.want, " N ")
			if got != tt.want && !(ok && strings.HasPrefix(got, kind) && strings.HasSuffix(got, file) && !strings.Contains(got, ";")) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestMissingLog(t *testing.T) {
	m := disktest.New()
	life(t, m, 2)
	b := life(t, m, 2)
	life(t, m, 2)
	removeAll(m, b)
	if got := faults(verify(t, m)); got != "missing_log -1 "+filepath.Base(b) {
		t.Errorf("got %s", got)
	}
}

func removeAll(m *disktest.Memory, origin string) {
	dir := "/data/log/" + filepath.Base(origin)
	for f := range m.Files(dir) {
		m.Remove("test", f)
	}
	m.Remove("test", dir)
}

// Pruning that is allowed leaves a signed marker, and verify says so instead of crying tampering.
func TestPruning(t *testing.T) {
	m := disktest.New()
	a := life(t, m, 2)
	life(t, m, 2)
	c := life(t, m, 2)
	l := openLog(t, m)
	n, err := l.Prune(t.Context(), time.Now().Add(time.Hour), func(o string) bool { return o == c })
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := verify(t, m)
	if r.Err() != nil || len(r.Findings) != 1 || r.Findings[0].Kind != receipts.Pruned {
		t.Errorf("got %v", r.Findings)
	}
	if _, err := m.ReadFile("test", seg(a, 0)); err == nil {
		t.Error("nothing was removed")
	}
	removeAll(m, c)
	if r := verify(t, m); !strings.HasPrefix(faults(r), "missing_log") {
		t.Errorf("one too many removed: %v", r.Findings)
	}
}

// Two writers: verify says fork, not edit or gap (msaad00/agent-bom#4185, Senthil455/Atlas-Workforce-System#182).
func TestForks(t *testing.T) {
	t.Run("both go on", func(t *testing.T) {
		m := disktest.New()
		first := openLog(t, m)
		if _, err := first.Append(t.Context(), &receipts.Receipt{Type: receipts.TypeDecision}); err != nil {
			t.Fatal(err)
		}
		clone := m.Killed() // the lock does not reach a clone of the disk
		second := openLog(t, clone)
		defer second.Close()
		if _, err := first.Append(t.Context(), &receipts.Receipt{Type: receipts.TypeDecision}); err != nil {
			t.Fatal(err)
		}
		first.Close()
		for name, b := range m.Files("/data/log") {
			clone.Remove("test", name)
			f, err := clone.Create("test", name)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteAt("test", b, 0)
		}
		if got := faults(verify(t, clone)); !strings.HasPrefix(got, "forked 2") || strings.Contains(got, ";") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("two successors", func(t *testing.T) {
		m := disktest.New()
		life(t, m, 1)
		clone := m.Killed()
		life(t, m, 2)
		origin := life(t, clone, 3)
		for name, b := range clone.Files("/data/log/" + filepath.Base(origin)) {
			m.MkdirAll("test", filepath.Dir(name))
			f, err := m.Create("test", name)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteAt("test", b, 0)
		}
		if got := faults(verify(t, m)); !strings.HasPrefix(got, "forked 0") || strings.Contains(got, ";") {
			t.Errorf("got %s", got)
		}
	})
}

// The hash is over the stored bytes: a time with nanoseconds is cut before it is hashed, and what was exported and read
// back verifies (FootprintAI/Containarium#1326).
func TestTimesAreStoredAsHashed(t *testing.T) {
	m := disktest.New()
	l := openLog(t, m)
	r := &receipts.Receipt{Type: receipts.TypeDispatching, Operation: "op_1", State: "dispatching", NotAfter: time.Unix(1767225600, 123456789)}
	pos, err := l.Append(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	e, err := receipts.NewReader(m.View("/data")).Get(t.Context(), pos[0].Log, pos[0].Seq)
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.Receipt.AppendJSON(nil)
	if err != nil || !bytes.Equal(again, e.Leaf) || e.Position() != pos[0] {
		t.Errorf("read back: %s\nstored:    %s", again, e.Leaf)
	}
	if verify(t, m).Err() != nil {
		t.Error(verify(t, m).Err())
	}
}

func TestIllegalSteps(t *testing.T) {
	tests := map[string][]receipts.Receipt{
		"unordered 1": {{Type: receipts.TypeOpOutcome, State: "confirmed"}}, // an outcome without an intent
		"unordered 3": {
			{Type: receipts.TypeDispatching, State: "dispatching"},
			{Type: receipts.TypeOpOutcome, State: "confirmed"},
			{Type: receipts.TypeDispatching, State: "dispatching"},
		},
		"unordered 2": {
			{Type: receipts.TypeHoldCreated, State: "proposed"}, {Type: receipts.TypeOpOutcome, State: "confirmed"},
		},
		"": {
			{Type: receipts.TypeHoldCreated, State: "proposed"},
			{Type: receipts.TypeHoldReleased, State: "proposed"},
			{Type: receipts.TypeDispatching, State: "dispatching"},
			{Type: receipts.TypeOpUnknown, State: "unknown"},
			{Type: receipts.TypeOpOutcome, State: "confirmed"},
			{Type: receipts.TypeOpConflict, State: "confirmed"},
		},
	}
	for want, list := range tests {
		m := disktest.New()
		l := openLog(t, m)
		for i := range list {
			list[i].Operation = "op_1"
			if _, err := l.Append(t.Context(), &list[i]); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		if got := faults(verify(t, m)); got != strings.TrimSpace(want+" 00000000.seg") && want != "" || want == "" && got != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A log can be verified and read while it is written, and nothing is taken for tampering.
func TestVerifyWhileWritten(t *testing.T) {
	dir := t.TempDir()
	l, err := segment.Open(t.Context(), segment.Options{Dir: dir, SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	pub, err := l.Identity()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 300 && err == nil; i++ {
			_, err = l.Append(context.Background(), &receipts.Receipt{Type: receipts.TypeDecision}, &receipts.Receipt{Type: receipts.TypeDecision})
		}
		done <- err
	}()
	for writing := true; writing; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		r, err := receipts.Verify(t.Context(), dir, pub)
		if err != nil || r.Err() != nil {
			t.Fatal(err, r.Err())
		}
		_, err = l.Reader().Last(t.Context(), 10, receipts.Query{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
