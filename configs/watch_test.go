package configs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type told struct {
	s   *Snapshot
	err error
}

// calls are what notify was told.
type calls struct {
	mu  sync.Mutex
	all []told
}

func (c *calls) notify(s *Snapshot, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, told{s, err})
}

func (c *calls) list() []told {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// watched runs a watcher over one file until the test ends.
func watched(t *testing.T, text string) (*Watcher, func(string), *calls) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	put := func(s string) {
		err := os.WriteFile(path, []byte(s), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	put(text)
	c := &calls{}
	w, err := Watch(c.notify, path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w, put, c
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWatcherReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, put, c := watched(t, "destinations:\n"+dest("a"))
		first := w.Current()
		pass(time.Minute)
		if len(c.list()) != 0 {
			t.Fatalf("told of nothing: %+v", c.list())
		}
		put("destinations:\n" + dest("a") + dest("b"))
		pass(3 * time.Second)
		if len(c.list()) != 1 || c.list()[0].err != nil || c.list()[0].s != w.Current() {
			t.Fatalf("calls %+v", c.list())
		}
		if w.Current().Destination("b") == nil || first.Destination("b") != nil {
			t.Error("the new snapshot is not the new content, or the old one changed")
		}
	})
}

func TestWatcherKeepsTheLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, put, c := watched(t, "destinations:\n"+dest("a"))
		good := w.Current()
		put("destinations:\n" + dest("b") + "colour: red\n")
		pass(time.Minute)
		if len(c.list()) != 1 || c.list()[0].err == nil || w.Current() != good {
			t.Fatalf("bad content: told %d times, want once; current %s", len(c.list()), w.Current().Version())
		}
		put("")
		pass(time.Minute)
		if len(c.list()) != 2 || w.Current() != good {
			t.Fatalf("empty file: told %d times", len(c.list()))
		}
		put("destinations:\n" + dest("b"))
		pass(time.Minute)
		if len(c.list()) != 3 || w.Current().Destination("b") == nil || w.Current().Destination("a") != nil {
			t.Fatalf("mended content: told %d times", len(c.list()))
		}
	})
}

func TestWatcherToldOnceOfAMissingFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, c := watched(t, "destinations:\n"+dest("a"))
		err := os.Remove(w.paths[0])
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if len(c.list()) != 1 || !strings.Contains(c.list()[0].err.Error(), "cannot be read") {
			t.Fatalf("calls %+v", c.list())
		}
	})
}

// A file that is still being written is left alone.
func TestWatcherWaitsUntilItIsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, put, c := watched(t, "destinations:\n"+dest("a"))
		time.Sleep(pollEvery - time.Millisecond)
		put("destinations:\n" + dest("b")) // seen by the first look
		time.Sleep(settleFor / 2)
		put("destinations:\n" + dest("b") + dest("c"))
		pass(settleFor)
		if len(c.list()) != 0 {
			t.Fatalf("taken while it changed: %+v", c.list())
		}
		pass(pollEvery + settleFor)
		if len(c.list()) != 1 || w.Current().Destination("c") == nil {
			t.Fatalf("calls %+v", c.list())
		}
	})
}

func TestReloadTellsAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, put, c := watched(t, "destinations:\n"+dest("a"))
		err := w.Reload()
		if err != nil || len(c.list()) != 1 {
			t.Fatalf("unchanged: %v, told %d times", err, len(c.list()))
		}
		put("x")
		err = w.Reload()
		if err == nil || len(c.list()) != 2 {
			t.Fatalf("bad: %v, told %d times", err, len(c.list()))
		}
		pass(time.Minute)
		if len(c.list()) != 2 {
			t.Error("the same bad content was told twice")
		}
	})
}

func TestOlderGenerationIsRefused(t *testing.T) {
	with := func(g string) string {
		return "destinations:\n" + strings.Replace(dest("a"), "    url", "    meta: {generation: "+g+"}\n    url", 1)
	}
	synctest.Test(t, func(t *testing.T) {
		w, put, c := watched(t, with("7"))
		for _, x := range []struct {
			g  string
			ok bool
		}{{"6", false}, {"7", true}, {"0", true}, {"9", true}, {"8", false}} {
			put(with(x.g))
			err := w.Reload()
			if (err == nil) != x.ok {
				t.Errorf("generation %s: %v", x.g, err)
			}
		}
		if len(c.list()) != 5 {
			t.Errorf("told %d times", len(c.list()))
		}
	})
}

func TestWatchNeedsAGoodStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	_, err := Watch(nil, path)
	if err == nil {
		t.Error("a missing file was taken")
	}
	write(t, filepath.Dir(path), map[string]string{"a.yaml": "x: y"})
	_, err = Watch(nil, path)
	if err == nil {
		t.Error("a bad file was taken")
	}
}
