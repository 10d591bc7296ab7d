package receipts

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"
)

func TestCommitIsHMAC(t *testing.T) {
	for n := range 200 {
		var salt [32]byte
		for i := range salt {
			salt[i] = byte(i * n)
		}
		b := bytes.Repeat([]byte{byte(n)}, n)
		m := hmac.New(sha256.New, salt[:])
		m.Write(append([]byte("req\x00"), b...))
		want := "h1:" + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
		if got := NewCommitter(salt).Commit("req", b); got != want {
			t.Fatalf("%d bytes: %s, want %s", n, got, want)
		}
	}
}
