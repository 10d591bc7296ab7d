package receipts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"io"
	"sync"

	"github.com/stoplog/stoplog"
)

// Labels of commitments: what kind of bytes is hidden, so that equal bytes in different roles do not look alike.
const (
	LabelRequest    = "req"
	LabelResponse   = "resp"
	LabelRecipients = "rcp"
	LabelCitations  = "obj"
)

// Committer makes the commitments of one operation. Within one operation equal bytes under one label give equal
// commitments, which proves "what was approved is what was sent" even after the salt is gone; across operations nothing
// can be compared. The zero Committer must not be used.
type Committer struct{ salt [32]byte }

// NewCommitter makes commitments with this salt: 32 secret bytes of one operation.
func NewCommitter(salt [32]byte) Committer { return Committer{salt} }

// Commit is "h1:" + base64url(HMAC-SHA256(salt, label 0x00 bytes)).
func (c Committer) Commit(label string, b []byte) string {
	m := macs.Get().(*mac)
	defer macs.Put(m)
	m.start(&c.salt)
	_, _ = io.WriteString(m.h, label)
	_, _ = m.h.Write(zero)
	_, _ = m.h.Write(b)
	return seal(m.end(&c.salt))
}

// mac is HMAC-SHA256 (RFC 2104) with a key of one size, over hash states that are used again: every receipt makes at least
// one commitment, and hmac.New allocates each time. A test holds it against crypto/hmac.
type mac struct {
	h   hash.Hash
	pad [sha256.BlockSize]byte
	sum [sha256.Size]byte
}

var (
	macs = sync.Pool{New: func() any { return &mac{h: sha256.New()} }}
	zero = []byte{0}
)

func (m *mac) key(k *[32]byte, x byte) {
	for i := range m.pad {
		m.pad[i] = x
	}
	for i, b := range k {
		m.pad[i] ^= b
	}
	m.h.Reset()
	_, _ = m.h.Write(m.pad[:])
}

func (m *mac) start(k *[32]byte) { m.key(k, 0x36) }

// end is valid until m goes back to the pool.
func (m *mac) end(k *[32]byte) []byte {
	inner := m.h.Sum(m.sum[:0])
	m.key(k, 0x5c)
	_, _ = m.h.Write(inner)
	return m.h.Sum(m.sum[:0])
}

// List commits to a sorted list: each entry is preceded by its length, so that no two lists share a form.
func (c Committer) List(label string, list []string) Count {
	if len(list) == 0 {
		return Count{}
	}
	m := hmac.New(sha256.New, c.salt[:])
	m.Write([]byte(label))
	m.Write([]byte{0})
	for _, s := range list {
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
		m.Write([]byte(s))
	}
	return Count{Hash: seal(m.Sum(nil)), N: len(list)}
}

// Describe fills in the commitments of r to a request: its body, recipients and citations. media is its media type
// without parameters.
func (c Committer) Describe(r *Receipt, e *stoplog.Effect, body []byte, media string) {
	r.Request = Commitment{Hash: c.Commit(LabelRequest, body), Bytes: int64(len(body)), Media: media}
	r.Recipients = c.List(LabelRecipients, e.Recipients)
	r.Citations = c.List(LabelCitations, e.Citations)
}

func seal(sum []byte) string {
	return string(base64.RawURLEncoding.AppendEncode([]byte("h1:"), sum))
}
