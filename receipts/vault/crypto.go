package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts/disk"
)

const (
	rootKey = "root"
	magic   = "STOPLOGV1\n"
)

// key returns one of the 32-byte keys, making it durable first if it does not exist and create says so.
func (v *Vault) key(name string, create bool) (k [32]byte, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k, ok := v.cache[name]; ok {
		return k, nil
	}
	path := filepath.Join(v.keys, name)
	b, err := v.fs.ReadFile("vault.key", path)
	switch {
	case err == nil && len(b) == len(k):
		k = [32]byte(b)
	case err == nil:
		return k, fmt.Errorf("%s: %d bytes, want %d", path, len(b), len(k))
	case create && errors.Is(err, fs.ErrNotExist):
		_, _ = rand.Read(k[:])
		err = disk.Replace(v.fs, "vault.key", path, k[:], disk.Full)
		if err != nil {
			return k, err
		}
	default:
		return k, err
	}
	if len(v.cache) > 4096 {
		clear(v.cache)
	}
	v.cache[name] = k
	return k, nil
}

// EraseMonth destroys the keys of a month ("2026-08"): every entry and every commitment of it is closed for good.
func (v *Vault) EraseMonth(m string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	list, err := v.fs.ReadDir("vault.list", v.keys)
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	for _, e := range list {
		if e.Name() != "salt-"+m && !strings.HasPrefix(e.Name(), "kek-"+m+"-") {
			continue
		}
		err := v.fs.Remove("vault.erase", filepath.Join(v.keys, e.Name()))
		if err != nil {
			return fmt.Errorf("vault: %w", err)
		}
		delete(v.cache, e.Name())
	}
	return v.fs.SyncDir("vault.dir", v.keys)
}

func (v *Vault) kekName(tenant, month string) (string, error) {
	tag, err := v.MAC("tenant", []byte(tenant))
	if err != nil {
		return "", err
	}
	return "kek-" + month + "-" + hex.EncodeToString(tag[:8]), nil
}

// month of an id that carries its time (UUIDv7), otherwise of now.
func month(id stoplog.OperationID, now time.Time) string {
	u, err := uuid.Parse(strings.TrimPrefix(string(id), "op_"))
	if err == nil && u.Version() == 7 {
		now = time.UnixMilli(int64(binary.BigEndian.Uint64(u[:8]) >> 16))
	}
	return now.UTC().Format("2006-01")
}

func mac(key [32]byte, label string, parts ...[]byte) (sum [32]byte) {
	m := hmac.New(sha256.New, key[:])
	for _, p := range append([][]byte{[]byte(label)}, parts...) {
		m.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		m.Write(p)
	}
	return [32]byte(m.Sum(nil))
}

// lock makes an entry: magic, length and name of the wrapping key, wrapped data key, ciphertext. Both seals cover the
// head and the entry's own name, so that no entry can stand in for another.
func lock(kek [32]byte, kekName, name string, plain []byte) []byte {
	var dek [32]byte
	_, _ = rand.Read(dek[:])
	out := append([]byte(magic), byte(len(kekName)))
	out = append(out, kekName...)
	aad := append([]byte(name+"\x00"), out...)
	out = gcm(kek).Seal(out, nil, dek[:], aad)
	return gcm(dek).Seal(out, nil, plain, aad)
}

func unlock(b []byte, name string, key func(string) ([32]byte, error)) ([]byte, error) {
	head := len(magic) + 1
	if len(b) < head || string(b[:len(magic)]) != magic || len(b) < head+int(b[head-1]) {
		return nil, ErrAltered
	}
	head += int(b[head-1])
	kekName := string(b[len(magic)+1 : head])
	if !strings.HasPrefix(kekName, "kek-") || strings.ContainsAny(kekName, "/\\.") {
		return nil, ErrAltered
	}
	kek, err := key(kekName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("its key was destroyed: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	aad := append([]byte(name+"\x00"), b[:head]...)
	wrapped := gcm(kek).Overhead() + 32
	if len(b) < head+wrapped {
		return nil, ErrAltered
	}
	dek, err := gcm(kek).Open(nil, nil, b[head:head+wrapped], aad)
	if err != nil {
		return nil, ErrAltered
	}
	plain, err := gcm([32]byte(dek)).Open(nil, nil, b[head+wrapped:], aad)
	if err != nil {
		return nil, ErrAltered
	}
	return plain, nil
}

// gcm is AES-256-GCM with a random nonce in front of each message.
func gcm(key [32]byte) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right size
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return a
}
