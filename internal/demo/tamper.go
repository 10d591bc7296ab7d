package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/frame"
)

// tamperedReceipt edits a copy of the log, as somebody could who has the disk, and lets verify look at both.
func tamperedReceipt(ctx context.Context, s *stage) error {
	data := s.app.DataDir()
	key, err := os.ReadFile(filepath.Join(data, "identity.pub"))
	if err != nil {
		return err
	}
	whole, err := receipts.Verify(ctx, data, string(key))
	if err != nil {
		return err
	}
	s.say("$ stoplog receipts verify --key %s", strings.TrimSpace(string(key)))
	s.claim(whole.Err() == nil && whole.Records > 0, "the log of this demo verifies: %d receipts are whole, in order and signed", whole.Records)
	dir := filepath.Join(s.dir, "copy")
	err = os.CopyFS(filepath.Join(dir, "log"), os.DirFS(filepath.Join(data, "log")))
	if err != nil {
		return fmt.Errorf("copy the log: %w", err)
	}
	// The receipt that says that the message was held: one letter is made to say that it went elsewhere.
	err = edit(dir, []byte(`"dest":"slack"`), []byte(`"dest":"slock"`))
	if err != nil {
		return err
	}
	s.say("In a copy of it, one letter of one receipt is changed, slack to slock, and its checksum mended.")
	rep, err := receipts.Verify(ctx, dir, string(key))
	switch {
	case err != nil:
		s.claim(true, "verify refuses it: %v", err)
	case rep.Err() == nil:
		s.claim(false, "verify finds the edit")
	default:
		s.claim(true, "verify finds it: %s", firstLine(rep.Err()))
	}
	return nil
}

var errNotFound = errors.New("the text to edit is in no receipt")

// edit replaces the first occurrence in a receipt, keeping its length, and mends the frame's checksum as somebody would who
// knows the format.
func edit(dir string, old, now []byte) error {
	found := errNotFound
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".seg") || found == nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h, err := frame.ParseHeader(b)
		if err != nil {
			return err
		}
		for at := frame.HeaderSize; at+frame.Overhead <= len(b); {
			end := at + frame.Overhead + int(binary.LittleEndian.Uint32(b[at+4:]))
			if end > len(b) {
				break
			}
			leaf := b[at+frame.Overhead : end]
			if bytes.Contains(leaf, old) {
				index := int64(binary.LittleEndian.Uint64(b[at+8:]))
				copy(b[at:], frame.AppendLeaf(nil, h.Salt, index, bytes.Replace(leaf, old, now, 1)))
				found = nil
				return os.WriteFile(path, b, 0o600)
			}
			at = end
		}
		return nil
	})
	return errors.Join(err, found)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
