package operator

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// TokenName is the token's file in a data directory.
const TokenName = "operator.token"

// Token reads the operator token of a data directory, and makes it if there is none. A file that others can read is refused:
// the token in it is no secret any more.
func Token(dir string) (string, error) {
	path := filepath.Join(dir, TokenName)
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails (crypto/rand)
	text := base64.RawURLEncoding.EncodeToString(token)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ReadToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("operator token: %w", err)
	}
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return "", fmt.Errorf("operator token: %w", errors.Join(err, os.Remove(path)))
	}
	return text, nil
}

// ReadToken reads a token file, which only its owner may be able to read.
func ReadToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", fmt.Errorf("operator token: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("operator token: %w", err)
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("operator token: %s must be a file of mode 0600; remove it to get a new token", path)
	}
	b := make([]byte, 256)
	n, _ := f.Read(b)
	text := strings.TrimSpace(string(b[:n]))
	if len(text) < 32 {
		return "", fmt.Errorf("operator token: %s is too short; remove it to get a new token", path)
	}
	return text, nil
}
