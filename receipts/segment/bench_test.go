package segment

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

func intent() *receipts.Receipt {
	return &receipts.Receipt{
		Type: receipts.TypeDispatching, Operation: "op_01890a5d-ac96-774b-bcce-b302099a8057", Attempt: 1, State: "dispatching",
		Actor: stoplog.Actor{Tenant: "acme", Org: "sales", Agent: "mailer", Run: "run-9"}, Destination: "slack", Connector: "slack",
		Class: stoplog.ClassMessage, Action: "chat.postMessage", Method: "POST", Host: "slack.com", Path: "/api/chat.postMessage",
		Request: receipts.Commitment{Hash: "h1:pEeW6zytWzr7LUUnSjIZC1r3myIWRmbra5UEo1aPrlk", Bytes: 512, Media: "application/json"},
		Decided: true, Verdict: stoplog.Allow, Reason: stoplog.ReasonAllowed, NotAfter: time.Now(),
	}
}

// BenchmarkAppend writes to the real disk (the temporary directory's); "raw" is one write and fdatasync per record.
func BenchmarkAppend(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		l := openBench(b)
		f, err := l.allocate(b.TempDir() + "/raw")
		if err != nil {
			b.Fatal(err)
		}
		rec := make([]byte, 700)
		off := int64(0)
		for b.Loop() {
			if err := f.WriteAt("", rec, off%(60<<20)); err != nil {
				b.Fatal(err)
			}
			off += 700
			if err := f.Sync(""); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, writers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(writers, " writers"), func(b *testing.B) {
			l := openBench(b)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range writers {
				n := b.N / writers
				if w < b.N%writers {
					n++
				}
				wg.Go(func() {
					for range n {
						_, err := l.Append(context.Background(), intent())
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkEnqueue(b *testing.B) {
	l := openBench(b)
	r := intent()
	b.ReportAllocs()
	for b.Loop() {
		c := *r
		_, err := l.Enqueue(&c)
		if err != nil { // faster than the disk: let it catch up
			b.StopTimer()
			_, err = l.Append(context.Background(), intent())
			for err != nil {
				time.Sleep(time.Millisecond)
				_, err = l.Append(context.Background(), intent())
			}
			b.StartTimer()
		}
	}
}

func openBench(b *testing.B) *Log {
	b.Helper()
	dir, err := os.MkdirTemp("", "stoplog-bench")
	if err != nil {
		b.Fatal(err)
	}
	l, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = l.Close()
		_ = os.RemoveAll(dir)
	})
	return l
}
