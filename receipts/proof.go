package receipts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	flog "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Prove makes the inclusion proof of one receipt: a c2sp.org/tlog-proof@v1 text over the log's last checkpoint, with the
// log's birth record as extra data, so that the receipt can be checked with nothing else but the identity key. It fails
// while no checkpoint covers the receipt.
func (r *Reader) Prove(ctx context.Context, origin string, seq int64) (leaf, text []byte, err error) {
	checkpoint, err := fs.ReadFile(r.fsys, path.Join("log", path.Base(origin), "checkpoint"))
	if err != nil {
		return nil, nil, fmt.Errorf("proof of %s/%d: %w", origin, seq, err)
	}
	c := &flog.Checkpoint{}
	_, err = c.Unmarshal(checkpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("proof of %s/%d: checkpoint: %w", origin, seq, err)
	}
	size := int64(c.Size)
	if seq < 0 || seq >= size {
		return nil, nil, fmt.Errorf("proof of %s/%d: the checkpoint covers %d records", origin, seq, size)
	}
	var hashes stored
	var birth []byte
	n, err := r.leaves(ctx, path.Base(origin), size, func(i int64, b []byte) error {
		if i == 0 {
			birth = append([]byte(nil), b...)
		}
		if i == seq {
			leaf = append([]byte(nil), b...)
		}
		h, err := tlog.StoredHashes(i, b, hashes)
		hashes = append(hashes, h...)
		return err
	})
	if err == nil && n < size {
		err = fmt.Errorf("only %d of %d signed records are there", n, size)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("proof of %s/%d: %w", origin, seq, err)
	}
	p, err := tlog.ProveRecord(size, seq, hashes)
	if err != nil {
		return nil, nil, fmt.Errorf("proof of %s/%d: %w", origin, seq, err)
	}
	out := proof.TLogProof{Index: uint64(seq), Checkpoint: checkpoint, ExtraData: birth}
	for _, h := range p {
		out.Hashes = append(out.Hashes, h)
	}
	return leaf, out.Marshal(), nil
}

// VerifyProof checks a receipt's leaf against its proof and the pinned identity key, and returns the receipt. It proves
// that this log, born under that identity, holds exactly these bytes at this place.
func VerifyProof(identity string, leaf, text []byte) (*Receipt, error) {
	p := proof.TLogProof{}
	err := p.Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	birth, err := Decode(p.ExtraData)
	if err != nil {
		return nil, fmt.Errorf("proof: birth record: %w", err)
	}
	key, err := CheckBirth(birth, strings.TrimSpace(identity))
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("proof: key of %s: %w", birth.Log, err)
	}
	c, _, _, err := flog.ParseCheckpoint(p.Checkpoint, birth.Log, v)
	if err != nil {
		return nil, fmt.Errorf("proof: checkpoint: %w", err)
	}
	r, err := Decode(leaf)
	if err != nil {
		return nil, err
	}
	if r.Log != birth.Log || uint64(r.Seq) != p.Index {
		return nil, fmt.Errorf("proof: it is about %s/%d, the receipt is %s/%d", birth.Log, p.Index, r.Log, r.Seq)
	}
	path := make(tlog.RecordProof, len(p.Hashes))
	for i, h := range p.Hashes {
		path[i] = h
	}
	err = tlog.CheckRecord(path, int64(c.Size), tlog.Hash(c.Hash), r.Seq, tlog.RecordHash(leaf))
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return r, nil
}

// leaves calls f with the first n leaves of a log and returns how many there were.
func (r *Reader) leaves(ctx context.Context, name string, n int64, f func(int64, []byte) error) (int64, error) {
	i := int64(0)
	for segment := int64(0); i < n; segment++ {
		file, s, err := r.open(name, segment)
		if errors.Is(err, fs.ErrNotExist) {
			return i, nil
		}
		if err != nil {
			return i, err
		}
		for i < n && ctx.Err() == nil {
			g, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = file.Close()
				return i, fmt.Errorf("%s: %w", segmentFile(name, segment), err)
			}
			for _, leaf := range g.Leaves {
				if i == n {
					break
				}
				err := f(i, leaf)
				if err != nil {
					_ = file.Close()
					return i, err
				}
				i++
			}
		}
		_ = file.Close()
		if ctx.Err() != nil {
			return i, ctx.Err()
		}
	}
	return i, nil
}

// stored are a tree's hashes in the order in which tlog stores them.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= int64(len(s)) {
			return nil, fmt.Errorf("hash %d of %d", x, len(s))
		}
		out[i] = s[x]
	}
	return out, nil
}
