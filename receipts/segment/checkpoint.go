package segment

import (
	"path/filepath"
	"sync"
	"time"

	flog "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/stoplog/stoplog/receipts/disk"
)

const checkpointName = "checkpoint"

// head is a durable state of a log.
type head struct {
	life life
	size int64
	root tlog.Hash
}

// signer signs what is durable, off the writer's way and at most once per Options.CheckpointEvery.
type signer struct {
	l    *Log
	kick chan struct{}
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pending head // size 0: nothing
	io      sync.Mutex
}

func newSigner(l *Log) *signer {
	s := &signer{l: l, kick: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// durable says that h survived a sync.
func (s *signer) durable(h head) {
	s.mu.Lock()
	s.pending = h
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *signer) run() {
	defer close(s.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-s.quit:
			return
		}
		select {
		case <-s.kick:
		case <-s.quit:
			return
		}
		s.flush()
		pause.Reset(s.l.o.CheckpointEvery)
	}
}

// flush signs what is pending. If the disk refuses the checkpoint, the next one will name more.
func (s *signer) flush() {
	s.io.Lock()
	defer s.io.Unlock()
	s.mu.Lock()
	h := s.pending
	s.pending = head{}
	s.mu.Unlock()
	if h.size == 0 {
		return
	}
	c := flog.Checkpoint{Origin: h.life.origin, Size: uint64(h.size), Hash: h.root[:]}
	msg, err := note.Sign(&note.Note{Text: string(c.Marshal())}, h.life.key)
	if err == nil {
		err = disk.Replace(s.l.fs, "checkpoint.write", filepath.Join(s.l.dir, h.life.name, checkpointName), msg, disk.Content)
	}
	if err == nil {
		return
	}
	s.mu.Lock()
	if s.pending.size == 0 {
		s.pending = h
	}
	s.mu.Unlock()
}

// close signs what is pending and ends the goroutine.
func (s *signer) close() {
	close(s.quit)
	<-s.done
	s.flush()
}
