package receipts

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Notes of a log.open receipt, the birth of a log. A log is written by one process life; its key lives in memory only and
// is vouched for here by the identity key, which signs nothing else.
const (
	NoteKey        = "key"         // verifier key of this log's checkpoints
	NoteSignature  = "sig"         // identity key's signature over everything else
	NotePrev       = "prev"        // origin of the log before; absent in the first
	NotePrevSize   = "prev_size"   // its records
	NotePrevRoot   = "prev_root"   // their root, base64
	NotePrevSigned = "prev_signed" // records under its last checkpoint
	NotePrevEnd    = "prev_end"    // EndSealed, EndCrash or EndWriteError
	NoteTorn       = "torn"        // bytes of a torn tail that were cut off and kept aside
)

// How a log ended, as its successor found it.
const (
	EndSealed     = "sealed"
	EndCrash      = "crash"
	EndWriteError = "write_error"
)

// Notes of log.prune: which log was removed, and what it was.
const (
	NoteLog  = "log"
	NoteSize = "size"
	NoteRoot = "root"
)

// Notes of log.gap: places that were given out before a write failed.
const (
	NoteFrom  = "from"
	NoteTo    = "to"
	NoteCause = "cause"
)

// NewKey makes an Ed25519 key pair in the text form of signed notes.
func NewKey(name string) (secret, public string, err error) {
	return note.GenerateKey(rand.Reader, name)
}

// PublicKey is the verifier key that belongs to a secret key made by NewKey.
func PublicKey(secret string) (string, error) {
	parts := strings.SplitN(secret, "+", 5)
	if len(parts) != 5 {
		return "", errors.New("signing key: malformed")
	}
	key, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(key) != 1+ed25519.SeedSize {
		return "", errors.New("signing key: malformed")
	}
	pub, _ := ed25519.NewKeyFromSeed(key[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(parts[2], pub)
}

// SignBirth signs a log.open receipt, whose Log, Time and Note are complete, with the identity key.
func SignBirth(r *Receipt, secret string) error {
	signer, err := note.NewSigner(secret)
	if err != nil {
		return fmt.Errorf("identity key: %w", err)
	}
	text, err := birthText(r)
	if err != nil {
		return err
	}
	msg, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return fmt.Errorf("signing the birth of %s: %w", r.Log, err)
	}
	line := strings.TrimSuffix(string(msg[strings.LastIndex(string(msg), " ")+1:]), "\n")
	r.Note[NoteSignature] = line
	return nil
}

// CheckBirth checks a log.open receipt against the pinned public identity key and returns the key that signs the log's
// checkpoints.
func CheckBirth(r *Receipt, identity string) (logKey string, err error) {
	v, err := note.NewVerifier(identity)
	if err != nil {
		return "", fmt.Errorf("identity key: %w", err)
	}
	if r.Type != TypeLogOpen || r.Seq != 0 {
		return "", fmt.Errorf("record %d is %s, not the birth of a log", r.Seq, r.Type)
	}
	text, err := birthText(r)
	if err != nil {
		return "", err
	}
	msg := text + "\n\u2014 " + v.Name() + " " + r.Note[NoteSignature] + "\n"
	_, err = note.Open([]byte(msg), note.VerifierList(v))
	if err != nil {
		return "", fmt.Errorf("birth of %s is not signed by %s: %w", r.Log, v.Name(), err)
	}
	return r.Note[NoteKey], nil
}

// birthText is what is signed: every fact of the birth, one per line.
func birthText(r *Receipt) (string, error) {
	b := &strings.Builder{}
	lines := []string{"stoplog birth v1", r.Log, strconv.FormatInt(r.Time.UnixMicro(), 10), r.Policy}
	for _, k := range slices.Sorted(maps.Keys(r.Note)) {
		if k != NoteSignature {
			lines = append(lines, k+"="+r.Note[k])
		}
	}
	for _, l := range lines {
		if strings.ContainsAny(l, "\n\r") {
			return "", fmt.Errorf("birth of %s: line break in %q", r.Log, l)
		}
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String(), nil
}
