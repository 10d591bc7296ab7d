// Package vault keeps exact bytes, encrypted, so that the log never has to.
//
//	<data>/vault/keys/root            keyed hashes: claim keys, sealed digests (0600)
//	<data>/vault/keys/salt-YYYY-MM    salts of commitments
//	<data>/vault/keys/kek-YYYY-MM-T   wraps the data keys of one tenant and month
//	<data>/vault/bytes/<op>.req|.ans  AES-256-GCM under a data key of its own
//
// Deleting an entry erases its bytes; deleting a month's keys erases all of that month, backups included, while receipts
// and proofs stay valid: they only hold commitments.
package vault

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
)

// Options of a vault. Only Dir is needed.
type Options struct {
	Dir       string // data directory
	FS        disk.FS
	Now       func() time.Time
	MaxBody   int64 // largest body of a request, in bytes; default 10 MiB
	MaxAnswer int64 // largest body of an answer, in bytes; default 256 KiB
}

// Vault keeps the exact bytes of operations. It is safe for concurrent use.
type Vault struct {
	o     Options
	fs    disk.FS
	keys  string
	bytes string

	mu    sync.Mutex
	cache map[string][32]byte
}

// Entry is what is kept of one operation. Effect and Salt make it possible to judge it again after a restart and to
// disclose what its commitments hide.
type Entry struct {
	Salt   [32]byte
	Effect stoplog.Effect
	Exact  stoplog.Exact
}

// ErrAltered means that an entry was changed, was moved, or does not belong to the keys.
var ErrAltered = errors.New("vault entry was altered or belongs to other keys")

// Open opens or makes the vault of a data directory. Entries without the root key are an error: the key was lost.
func Open(o Options) (*Vault, error) {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBody == 0 {
		o.MaxBody = 10 << 20
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = 256 << 10
	}
	v := &Vault{
		o: o, fs: o.FS, cache: map[string][32]byte{},
		keys: filepath.Join(o.Dir, "vault", "keys"), bytes: filepath.Join(o.Dir, "vault", "bytes"),
	}
	for _, dir := range []string{v.keys, v.bytes} {
		err := v.fs.MkdirAll("vault.mkdir", dir)
		if err != nil {
			return nil, fmt.Errorf("vault: %w", err)
		}
	}
	_, err := v.key(rootKey, false)
	if errors.Is(err, fs.ErrNotExist) {
		list, err := v.fs.ReadDir("vault.list", v.bytes)
		if err != nil {
			return nil, fmt.Errorf("vault: %w", err)
		}
		if len(list) > 0 {
			return nil, fmt.Errorf("vault: %s is missing although entries exist: restore it", filepath.Join(v.keys, rootKey))
		}
		_, err = v.key(rootKey, true)
		if err != nil {
			return nil, fmt.Errorf("vault: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return v, nil
}

// Put keeps a request. It is durable, under its name, when Put returns. A body above Options.MaxBody is refused with
// hold_too_large; it is never cut.
func (v *Vault) Put(id stoplog.OperationID, e *Entry) error {
	if int64(len(e.Exact.Body)) > v.o.MaxBody {
		return stoplog.Refuse(stoplog.ReasonHoldTooLarge,
			fmt.Sprintf("the body has %d bytes, the vault keeps at most %d", len(e.Exact.Body), v.o.MaxBody))
	}
	return v.write(id, ".req", e.Effect.Actor.Tenant, e, disk.Full)
}

// Get returns a kept request; fs.ErrNotExist if there is none, ErrAltered if it is not what was put.
func (v *Vault) Get(id stoplog.OperationID) (*Entry, error) {
	e := &Entry{}
	err := v.read(id, ".req", e)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// PutAnswer keeps an answer for replay. It is not synced: a power cut may lose it, which Get then says. kept is false
// when its body is above Options.MaxAnswer.
func (v *Vault) PutAnswer(id stoplog.OperationID, tenant string, a *stoplog.Answer) (kept bool, err error) {
	if int64(len(a.Body)) > v.o.MaxAnswer {
		return false, nil
	}
	err = v.write(id, ".ans", tenant, a, disk.Lazy)
	return err == nil, err
}

// Answer returns a kept answer; errors as Get.
func (v *Vault) Answer(id stoplog.OperationID) (*stoplog.Answer, error) {
	a := &stoplog.Answer{}
	err := v.read(id, ".ans", a)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Delete erases what is kept of an operation; nothing kept is no error.
func (v *Vault) Delete(id stoplog.OperationID) error {
	found := false
	for _, kind := range []string{".req", ".ans"} {
		err := v.remove(id, kind)
		found = found || err == nil
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !found {
		return nil
	}
	return v.fs.SyncDir("vault.dir", v.bytes)
}

// DeleteAnswer erases a kept answer; nothing kept is no error.
func (v *Vault) DeleteAnswer(id stoplog.OperationID) error {
	err := v.remove(id, ".ans")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (v *Vault) remove(id stoplog.OperationID, kind string) error {
	path, err := v.path(id, kind)
	if err != nil {
		return err
	}
	return v.fs.Remove("vault.remove", path)
}

// Collect deletes entries last written more than age ago that keep does not want, and returns how many.
func (v *Vault) Collect(age time.Duration, keep func(stoplog.OperationID) bool) (int, error) {
	list, err := v.fs.ReadDir("vault.list", v.bytes)
	if err != nil {
		return 0, fmt.Errorf("vault: %w", err)
	}
	n, now := 0, v.o.Now()
	for _, e := range list {
		name, _, _ := strings.Cut(e.Name(), ".")
		if disk.Age(e, now) < age || keep(stoplog.OperationID(name)) {
			continue
		}
		err := v.fs.Remove("vault.remove", filepath.Join(v.bytes, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, v.fs.SyncDir("vault.dir", v.bytes)
}

// Committer makes the commitments of an operation whose bytes are not kept: its salt comes from the month's salt key, so
// that the operator can disclose it, until that key is destroyed. id is any unique id.
func (v *Vault) Committer(id stoplog.OperationID) (receipts.Committer, error) {
	k, err := v.key("salt-"+month(id, v.o.Now()), true)
	if err != nil {
		return receipts.Committer{}, fmt.Errorf("vault: %w", err)
	}
	return receipts.NewCommitter(mac(k, "salt", []byte(id))), nil
}

// MAC is a keyed hash under the data directory's own secret; length-prefixed parts cannot run into each other.
func (v *Vault) MAC(label string, parts ...[]byte) ([32]byte, error) {
	k, err := v.key(rootKey, false)
	if err != nil {
		return k, fmt.Errorf("vault: %w", err)
	}
	return mac(k, label, parts...), nil
}

func (v *Vault) path(id stoplog.OperationID, kind string) (string, error) {
	s := string(id)
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) {
		return "", fmt.Errorf("vault: %q is not an operation id", s)
	}
	return filepath.Join(v.bytes, s+kind), nil
}

func (v *Vault) write(id stoplog.OperationID, kind, tenant string, value any, d disk.Durability) error {
	path, err := v.path(id, kind)
	if err != nil {
		return err
	}
	plain := &bytes.Buffer{}
	err = gob.NewEncoder(plain).Encode(value) // gob keeps strings byte for byte; header values need not be UTF-8
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	name, err := v.kekName(tenant, month(id, v.o.Now()))
	if err != nil {
		return err
	}
	kek, err := v.key(name, true)
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	err = disk.Replace(v.fs, "vault.write", path, lock(kek, name, string(id)+kind, plain.Bytes()), d)
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	return nil
}

func (v *Vault) read(id stoplog.OperationID, kind string, value any) error {
	path, err := v.path(id, kind)
	if err != nil {
		return err
	}
	b, err := v.fs.ReadFile("vault.read", path)
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	plain, err := unlock(b, string(id)+kind, func(name string) ([32]byte, error) { return v.key(name, false) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = gob.NewDecoder(bytes.NewReader(plain)).Decode(value)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
