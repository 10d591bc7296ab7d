// Package frame is the form of a segment file, and nothing else: no clock, no receipts, no writing.
//
//	segment = header (4 KiB) group*
//	group   = leaf frame* COMMIT frame
//	frame   = type u8, flags u8, 0 u16, len u32, index u64, salt u32, CRC-32C u32, payload   (little endian)
//
// A leaf frame's index is its place in the log. A COMMIT names the tree's size, its RFC 6962 root and the size that was
// already durable when its group was written: that last number tells a torn tail (nothing behind it was promised) from
// damage in the middle (something was). The salt keeps frames of a recycled file from being read as this one's.
package frame

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	HeaderSize = 4096      // bytes before the first frame
	Overhead   = 24        // bytes of a frame besides its payload
	CommitSize = 48        // payload of a COMMIT
	MaxLeaf    = 64 << 10  // the format's own bound; the log's is smaller
	magic      = "STOPLOG" // followed by the version
	version    = '1'

	typeLeaf   = 1
	typeCommit = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the first page of a segment.
type Header struct {
	Number int64  // of this segment in its log, from 0
	First  int64  // index of the first leaf
	Origin string // of the log; at most 256 bytes
	Salt   [4]byte
}

// Append adds the header's 4 KiB to dst.
func (h Header) Append(dst []byte) []byte {
	b := make([]byte, HeaderSize)
	copy(b, magic)
	b[7] = version
	binary.LittleEndian.PutUint64(b[8:], uint64(h.Number))
	binary.LittleEndian.PutUint64(b[16:], uint64(h.First))
	copy(b[24:], h.Salt[:])
	binary.LittleEndian.PutUint16(b[28:], uint16(len(h.Origin)))
	copy(b[32:], h.Origin)
	binary.LittleEndian.PutUint32(b[HeaderSize-4:], crc32.Checksum(b[:HeaderSize-4], castagnoli))
	return append(dst, b...)
}

// ParseHeader reads a header; an unknown version or a wrong checksum is an error.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("segment header: %d bytes, want %d", len(b), HeaderSize)
	}
	b = b[:HeaderSize]
	if string(b[:7]) != magic {
		return Header{}, fmt.Errorf("segment header: not a segment")
	}
	if b[7] != version {
		return Header{}, fmt.Errorf("segment header: version %q is not known", b[7])
	}
	if crc32.Checksum(b[:HeaderSize-4], castagnoli) != binary.LittleEndian.Uint32(b[HeaderSize-4:]) {
		return Header{}, fmt.Errorf("segment header: wrong checksum")
	}
	n := int(binary.LittleEndian.Uint16(b[28:]))
	if n > 256 {
		return Header{}, fmt.Errorf("segment header: origin of %d bytes", n)
	}
	return Header{
		Number: int64(binary.LittleEndian.Uint64(b[8:])),
		First:  int64(binary.LittleEndian.Uint64(b[16:])),
		Salt:   [4]byte(b[24:28]),
		Origin: string(b[32 : 32+n]),
	}, nil
}

// Commit ends a group.
type Commit struct {
	Size    int64 // leaves in the log, this group's included
	Root    tlog.Hash
	Durable int64 // leaves that were durable before this group was written
}

// AppendLeaf adds a leaf frame to dst.
func AppendLeaf(dst []byte, salt [4]byte, index int64, leaf []byte) []byte {
	return appendFrame(dst, typeLeaf, salt, index, leaf)
}

// AppendCommit adds a COMMIT frame to dst.
func AppendCommit(dst []byte, salt [4]byte, c Commit) []byte {
	var p [CommitSize]byte
	binary.LittleEndian.PutUint64(p[0:], uint64(c.Size))
	copy(p[8:], c.Root[:])
	binary.LittleEndian.PutUint64(p[40:], uint64(c.Durable))
	return appendFrame(dst, typeCommit, salt, c.Size, p[:])
}

func appendFrame(dst []byte, typ byte, salt [4]byte, index int64, payload []byte) []byte {
	var h [Overhead]byte
	h[0] = typ
	binary.LittleEndian.PutUint32(h[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(h[8:], uint64(index))
	copy(h[16:], salt[:])
	binary.LittleEndian.PutUint32(h[20:], checksum(h[:20], payload))
	dst = append(dst, h[:]...)
	return append(dst, payload...)
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

func parseCommit(p []byte) Commit {
	return Commit{
		Size:    int64(binary.LittleEndian.Uint64(p[0:])),
		Root:    tlog.Hash(p[8:40]),
		Durable: int64(binary.LittleEndian.Uint64(p[40:])),
	}
}
