package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"
)

// Group is one group as it stands in the file. Its bytes are valid until the next call of Next.
type Group struct {
	First  int64    // index of the first leaf
	Leaves [][]byte // empty for the COMMIT that only says "durable until here"
	Hashes []tlog.Hash
	Commit Commit
	Offset int64 // of the first frame
	End    int64 // behind the COMMIT
}

// Stop is why a Scanner cannot go on although the segment does.
type Stop struct {
	Offset int64 // of the frame that cannot be read
	Index  int64 // leaf that was expected there
	First  int64 // first leaf of the group that the frame would belong to
	What   string
}

func (s *Stop) Error() string {
	return fmt.Sprintf("offset %d, record %d: %s", s.Offset, s.Index, s.What)
}

// Scanner reads whole groups of one segment and checks each COMMIT against the tree. It may be asked again after io.EOF:
// a segment that is being written grows.
type Scanner struct {
	r      io.ReaderAt
	size   int64 // of the file; bytes behind it are not read
	header Header
	tree   Tree
	off    int64 // behind the last whole group

	buf     []byte // window of the file that starts at bufOff
	bufOff  int64
	skipSum bool
	group   Group
}

// NewScanner reads the header. tree is the log's state before the segment's first leaf; its size must be header.First.
// size < 0 means "as long as bytes come".
func NewScanner(r io.ReaderAt, size int64, tree Tree) (*Scanner, error) {
	b := make([]byte, HeaderSize)
	n, err := r.ReadAt(b, 0)
	if n < HeaderSize && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	h, err := ParseHeader(b[:n])
	if err != nil {
		return nil, err
	}
	if size < 0 {
		size = 1<<63 - 1
	}
	return &Scanner{r: r, size: size, header: h, tree: tree.Clone(), off: HeaderSize}, nil
}

// NewReader is a Scanner that checks frames but computes no tree, for readers that only want the leaves.
func NewReader(r io.ReaderAt, size int64) (*Scanner, error) {
	s, err := NewScanner(r, size, Tree{})
	if err != nil {
		return nil, err
	}
	s.skipSum = true
	s.tree.size = s.header.First
	return s, nil
}

// Header of the segment.
func (s *Scanner) Header() Header { return s.header }

// Tree is the state after the last whole group. It may be cloned and must not be changed.
func (s *Scanner) Tree() *Tree { return &s.tree }

// Offset is the place behind the last whole group.
func (s *Scanner) Offset() int64 { return s.off }

// Next returns the next whole group; io.EOF where nothing follows (end of file, or untouched space); a *Stop where
// something follows that is not a whole group; any other error from reading.
func (s *Scanner) Next() (*Group, error) {
	g, err := s.next()
	if err != nil {
		s.buf, s.bufOff = s.buf[:0], 0 // what was read may be half-written: look again next time
		return nil, err
	}
	return g, nil
}

func (s *Scanner) next() (*Group, error) {
	g := &s.group
	*g = Group{First: s.tree.size, Offset: s.off, Leaves: g.Leaves[:0], Hashes: g.Hashes[:0]}
	type span struct{ from, to int64 }
	var leaves []span
	at, index := s.off, s.tree.size
	stop := func(what string) error { return &Stop{Offset: at, Index: index, First: g.First, What: what} }
	for {
		h, err := s.window(at, Overhead)
		if err != nil {
			return nil, err
		}
		if len(h) < Overhead || zero(h) {
			if at == s.off && zero(h) {
				return nil, io.EOF
			}
			return nil, stop("ends inside a group")
		}
		n := int64(binary.LittleEndian.Uint32(h[4:]))
		typ, salt := h[0], [4]byte(h[16:20])
		switch {
		case typ != typeLeaf && typ != typeCommit:
			return nil, stop("not a frame")
		case salt != s.header.Salt:
			return nil, stop("frame of another segment")
		case typ == typeLeaf && n > MaxLeaf, typ == typeCommit && n != CommitSize:
			return nil, stop("impossible length")
		}
		f, err := s.window(at, Overhead+n)
		if err != nil {
			return nil, err
		}
		if int64(len(f)) < Overhead+n {
			return nil, stop("ends inside a frame")
		}
		if checksum(f[:20], f[Overhead:]) != binary.LittleEndian.Uint32(f[20:24]) {
			return nil, stop("wrong checksum")
		}
		if int64(binary.LittleEndian.Uint64(f[8:])) != index {
			return nil, stop(fmt.Sprintf("frame says record %d", binary.LittleEndian.Uint64(f[8:])))
		}
		at += Overhead + n
		if typ == typeLeaf {
			leaves = append(leaves, span{at - n, at})
			index++
			continue
		}
		g.Commit, g.End = parseCommit(f[Overhead:]), at
		break
	}
	for _, l := range leaves { // the window may have moved while it grew: slice it only now
		g.Leaves = append(g.Leaves, s.buf[l.from-s.bufOff:l.to-s.bufOff])
	}
	at = s.off
	if g.Commit.Size != index || g.Commit.Durable > g.First {
		return nil, stop("COMMIT does not fit its group")
	}
	if err := s.add(g); err != nil {
		return nil, stop(err.Error())
	}
	s.off = g.End
	return g, nil
}

func (s *Scanner) add(g *Group) error {
	if s.skipSum {
		s.tree.size = g.Commit.Size
		return nil
	}
	t := s.tree.Clone()
	for _, l := range g.Leaves {
		h := tlog.RecordHash(l)
		g.Hashes = append(g.Hashes, h)
		t.Add(h)
	}
	if t.Root() != g.Commit.Root {
		return errRoot
	}
	s.tree = t
	return nil
}

var errRoot = errors.New("records do not give the root of their COMMIT")

// window returns n bytes at off, or fewer where the file ends.
func (s *Scanner) window(off, n int64) ([]byte, error) {
	if s.bufOff != s.off && off == s.off { // a new group: drop what lies before it
		k := s.off - s.bufOff
		if len(s.buf) == 0 || k < 0 || k > int64(len(s.buf)) {
			s.buf = s.buf[:0]
		} else {
			s.buf = s.buf[:copy(s.buf, s.buf[k:])]
		}
		s.bufOff = s.off
	}
	n = min(n, s.size-off)
	if n <= 0 {
		return nil, nil
	}
	need := off + n - s.bufOff
	if have := int64(len(s.buf)); have < need {
		grow := max(need, min(have*2, 1<<20), 64<<10)
		grow = min(grow, s.size-s.bufOff)
		s.buf = append(s.buf, make([]byte, grow-have)...)
		k, err := s.r.ReadAt(s.buf[have:], s.bufOff+have)
		s.buf = s.buf[:have+int64(k)]
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return s.buf[off-s.bufOff : min(need, int64(len(s.buf)))], nil
}

// Tail describes what lies behind the last whole group.
type Tail struct {
	Used    int64 // end of the last byte that is not zero; Offset() if there is none
	Damaged bool  // a later COMMIT proves that records behind Offset were durable: this is no torn tail
	Proof   int64 // offset of that COMMIT
}

// Tail looks at everything behind the last whole group.
func (s *Scanner) Tail() (Tail, error) {
	t := Tail{Used: s.off}
	const chunk, lap = 128 << 10, Overhead + CommitSize
	buf := make([]byte, chunk+lap)
	for off := s.off; ; off += chunk {
		n, err := s.r.ReadAt(buf[:min(int64(len(buf)), max(s.size-off, 0))], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return Tail{}, err
		}
		b := buf[:n]
		if k := len(bytes.TrimRight(b, "\x00")); k > 0 {
			t.Used = max(t.Used, off+int64(k))
			if p := s.findCommit(b); p >= 0 && !t.Damaged {
				t.Damaged, t.Proof = true, off+int64(p)
			}
		}
		if n <= chunk {
			return t, nil
		}
	}
}

// findCommit finds a COMMIT in b that vouches for records which were not read.
func (s *Scanner) findCommit(b []byte) int {
	for from := 16; from < len(b); {
		i := bytes.Index(b[from:], s.header.Salt[:])
		if i < 0 {
			return -1
		}
		at := from + i - 16
		from += i + 1
		if at+Overhead+CommitSize > len(b) || b[at] != typeCommit || binary.LittleEndian.Uint32(b[at+4:]) != CommitSize {
			continue
		}
		p := b[at+Overhead : at+Overhead+CommitSize]
		if checksum(b[at:at+20], p) == binary.LittleEndian.Uint32(b[at+20:]) && parseCommit(p).Durable > s.tree.size {
			return at
		}
	}
	return -1
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
