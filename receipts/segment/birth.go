package segment

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
	"github.com/stoplog/stoplog/receipts/frame"
)

// before is the log that a new one follows.
type before struct {
	number int64 // of the incarnation; 0 if there is none
	origin string
	size   int64
	root   tlog.Hash
	signed int64 // records under the last checkpoint; 0 if none can be read
	end    string
	torn   int64 // bytes cut off
}

// conceive makes the place and the key of a new incarnation; nothing refers to it yet.
func (l *Log) conceive(number int64) (life, *file, error) {
	var tag [4]byte
	_, _ = rand.Read(tag[:])
	name := fmt.Sprintf("%06d-%s", number, hex.EncodeToString(tag[:]))
	n := life{name: name, origin: l.o.Origin + "/" + name, born: l.o.Now()}
	secret, public, err := receipts.NewKey(n.origin)
	if err != nil {
		return n, nil, fmt.Errorf("origin %q: %w", n.origin, err)
	}
	n.public = public
	n.key, err = note.NewSigner(secret)
	if err != nil {
		return n, nil, fmt.Errorf("origin %q: %w", n.origin, err)
	}
	dir := filepath.Join(l.dir, name)
	err = l.fs.MkdirAll("log.mkdir", dir)
	if err == nil {
		err = l.fs.SyncDir("log.dir", l.dir)
	}
	if err != nil {
		return n, nil, err
	}
	f, err := l.newSegment(dir, n.origin, 0, 0, nil)
	if err != nil {
		_ = l.fs.Remove("log.remove", dir)
		return n, nil, err
	}
	return n, f, nil
}

// birth makes n the current incarnation and writes its first record, signed by the identity key.
func (l *Log) birth(n life, f *file, prev before) error {
	r := &receipts.Receipt{
		Type: receipts.TypeLogOpen, Log: n.origin, Policy: l.o.Policy,
		Time: time.UnixMicro(n.born.UnixMicro()).UTC(),
		Note: map[string]string{receipts.NoteKey: n.public},
	}
	set := func(k, v string) {
		if v != "" {
			r.Note[k] = v
		}
	}
	set("build", l.o.Build)
	if prev.number > 0 {
		set(receipts.NotePrev, prev.origin)
		set(receipts.NotePrevSize, strconv.FormatInt(prev.size, 10))
		set(receipts.NotePrevRoot, base64.StdEncoding.EncodeToString(prev.root[:]))
		set(receipts.NotePrevSigned, strconv.FormatInt(prev.signed, 10))
		set(receipts.NotePrevEnd, prev.end)
		if prev.torn > 0 {
			set(receipts.NoteTorn, strconv.FormatInt(prev.torn, 10))
		}
	}
	err := receipts.SignBirth(r, l.identity)
	if err != nil {
		return err
	}
	w := &l.w
	w.close()
	*w = writer{file: f, off: frame.HeaderSize, out: w.out, watched: time.Now()}
	g := &group{done: make(chan struct{}), born: time.Now()}
	l.mu.Lock()
	l.life, l.next = n, 0
	l.add(g, r, true)
	l.backlog -= len(g.buf)
	l.mu.Unlock()
	l.write(g)
	return g.err
}

// roll ends this incarnation and begins another under a new key, while submitters wait. If there is no space for a new
// one, the old one goes on.
func (l *Log) roll() {
	l.mu.Lock()
	l.rolling = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.rolling = false
		l.rolled.Broadcast()
		l.mu.Unlock()
	}()
	number, err := incarnationNumber(l.life.name)
	if err != nil {
		return
	}
	next, f, err := l.conceive(number + 1)
	if err != nil {
		if !noSpace(err) {
			l.fail(fmt.Errorf("new log: %w", err))
		}
		return
	}
	for g := l.first(); g != nil; g = l.first() {
		l.write(g)
	}
	if l.noRoom() == nil {
		l.seal()
	}
	if l.failure() != nil || l.noRoom() != nil {
		_ = f.Close()
		return
	}
	l.trim()
	l.signer.flush()
	w := &l.w
	prev := before{
		number: number, origin: l.life.origin, size: w.tree.Size(), root: w.root, signed: w.tree.Size(), end: receipts.EndSealed,
	}
	err = l.birth(next, f, prev)
	if err != nil {
		l.fail(fmt.Errorf("birth of %s: %w", next.origin, err))
	}
}

// first removes the first queued group, unless the log takes nothing.
func (l *Log) first() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.poison != nil || l.full != nil {
		return nil
	}
	return l.pop()
}

func incarnationNumber(name string) (int64, error) {
	digits, _, ok := strings.Cut(name, "-")
	if !ok || len(digits) != 6 {
		return 0, fmt.Errorf("%q is not the name of a log", name)
	}
	return strconv.ParseInt(digits, 10, 64)
}

// identity reads or makes the key that signs births.
func identity(fsys disk.FS, dir, name string) (string, error) {
	path := filepath.Join(dir, "identity.key")
	b, err := fsys.ReadFile("identity.read", path)
	secret := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		logs, err := incarnations(fsys, filepath.Join(dir, "log"))
		if err != nil {
			return "", err
		}
		if len(logs) > 0 {
			return "", fmt.Errorf("%s is missing although logs exist: restore it, or move %s away to begin anew",
				path, filepath.Join(dir, "log"))
		}
		secret, _, err = receipts.NewKey(name)
		if err != nil {
			return "", err
		}
		err = disk.Replace(fsys, "identity.write", path, []byte(secret+"\n"), disk.Full)
		if err != nil {
			return "", fmt.Errorf("identity key: %w", err)
		}
	case err != nil:
		return "", fmt.Errorf("identity key: %w", err)
	}
	public, err := receipts.PublicKey(secret)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	pub := filepath.Join(dir, "identity.pub")
	b, err = fsys.ReadFile("identity.read", pub)
	if err != nil || strings.TrimSpace(string(b)) != public {
		err = disk.Replace(fsys, "identity.write", pub, []byte(public+"\n"), disk.Full)
	}
	return secret, err
}
