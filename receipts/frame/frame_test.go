package frame

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// The short tree gives the same roots as tlog's over all hashes.
func TestTree(t *testing.T) {
	var all []tlog.Hash
	read := tlog.HashReaderFunc(func(ix []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(ix))
		for i, x := range ix {
			out[i] = all[x]
		}
		return out, nil
	})
	var tree Tree
	for n := range int64(300) {
		want, err := tlog.TreeHash(n, read)
		if err != nil || tree.Root() != want || tree.Size() != n {
			t.Fatalf("size %d: got %v, want %v, %v", n, tree.Root(), want, err)
		}
		h := tlog.RecordHash([]byte{byte(n), byte(n >> 8)})
		more, err := tlog.StoredHashesForRecordHash(n, h, read)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, more...)
		tree.Add(h)
	}
}

func build(r *rand.Rand, salt [4]byte, groups, first int) ([]byte, []int) {
	b := Header{Number: 3, First: int64(first), Origin: "o", Salt: salt}.Append(nil)
	tree := filled(first)
	ends := []int{len(b)}
	for range groups {
		durable := tree.Size()
		for range r.Intn(5) {
			leaf := make([]byte, 1+r.Intn(300))
			r.Read(leaf)
			b = AppendLeaf(b, salt, tree.Size(), leaf)
			tree.Add(tlog.RecordHash(leaf))
		}
		b = AppendCommit(b, salt, Commit{Size: tree.Size(), Root: tree.Root(), Durable: durable})
		ends = append(ends, len(b))
	}
	return b, ends
}

func filled(n int) (t Tree) {
	for i := range n {
		t.Add(tlog.RecordHash([]byte{byte(i)}))
	}
	return t
}

func scan(b []byte, first int) (*Scanner, int, error) {
	s, err := NewScanner(bytes.NewReader(b), int64(len(b)), filled(first))
	if err != nil {
		return nil, 0, err
	}
	for n := 0; ; n++ {
		_, err := s.Next()
		if err != nil {
			return s, n, err
		}
	}
}

func TestScan(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	b, ends := build(r, [4]byte{1, 2, 3, 4}, 20, 7)
	for _, pad := range []int{0, 1, 23, 24, 5000} {
		s, n, err := scan(append(bytes.Clone(b), make([]byte, pad)...), 7)
		if n != 20 || pad != 1 && pad != 23 && !errors.Is(err, io.EOF) || s.Offset() != int64(len(b)) {
			t.Errorf("padded with %d: %d groups, %v", pad, n, err)
		}
	}
	for cut := HeaderSize; cut < len(b); cut++ {
		s, n, _ := scan(b[:cut], 7)
		tail, err := s.Tail()
		if s.Offset() > int64(cut) || ends[n] != int(s.Offset()) || tail.Damaged || err != nil {
			t.Fatalf("cut at %d: %d groups up to %d, %+v, %v", cut, n, s.Offset(), tail, err)
		}
	}
}

// A flipped bit anywhere but in the last group is damage, whatever it hits.
func TestFlips(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	b, ends := build(r, [4]byte{1, 2, 3, 4}, 6, 0)
	b = AppendLeaf(b, [4]byte{1, 2, 3, 4}, 99, nil) // garbage behind
	for i := HeaderSize; i < ends[5]; i++ {
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << r.Intn(8)
		s, n, err := scan(flipped, 0)
		var stop *Stop
		if n >= 6 || !errors.As(err, &stop) && !errors.Is(err, io.EOF) {
			t.Fatalf("flip at %d: %d groups, %v", i, n, err)
		}
		tail, _ := s.Tail()
		more := int64(0) // leaves that a later COMMIT calls durable
		if s2, _, _ := scan(b, 0); s2 != nil {
			more = s2.Tree().Size() - s.Tree().Size()
		}
		if more > 4 && !tail.Damaged {
			t.Fatalf("flip at %d: taken for a torn tail", i)
		}
	}
	for i := range HeaderSize {
		flipped := bytes.Clone(b)
		flipped[i] ^= 1
		if _, err := ParseHeader(flipped); err == nil {
			t.Fatalf("flip at %d of the header", i)
		}
	}
}

// Frames of a recycled file carry another salt and are never read.
func TestRecycledFile(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	old, _ := build(r, [4]byte{9, 9, 9, 9}, 30, 0)
	b, ends := build(r, [4]byte{1, 2, 3, 4}, 3, 0)
	s, n, _ := scan(append(bytes.Clone(b), old[len(b):]...), 0)
	tail, _ := s.Tail()
	if n != 3 || s.Offset() != int64(ends[3]) || tail.Damaged {
		t.Errorf("%d groups, %+v", n, tail)
	}
}

func FuzzScan(f *testing.F) {
	b, _ := build(rand.New(rand.NewSource(4)), [4]byte{1, 2, 3, 4}, 3, 0)
	f.Add(b[HeaderSize:])
	f.Add(append(bytes.Clone(b[HeaderSize:]), 1, 0, 0, 0, 255, 255, 255, 255))
	head := b[:HeaderSize]
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := NewScanner(bytes.NewReader(append(bytes.Clone(head), body...)), -1, Tree{})
		if err != nil {
			t.Fatal(err)
		}
		last := s.Offset()
		for {
			g, err := s.Next()
			if err != nil {
				break
			}
			if g.End <= last || g.Commit.Size != s.Tree().Size() || g.Commit.Root != s.Tree().Root() {
				t.Fatalf("group %+v after offset %d", g, last)
			}
			last = g.End
		}
		tail, err := s.Tail()
		if err != nil || tail.Used < s.Offset() || tail.Used > int64(HeaderSize+len(body)) {
			t.Fatalf("%+v, %v", tail, err)
		}
	})
}
