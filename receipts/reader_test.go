package receipts_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
)

func TestProof(t *testing.T) {
	m := disktest.New()
	life(t, m, 3)
	origin := life(t, m, 300)
	r := receipts.NewReader(m.View("/data"))
	for _, seq := range []int64{0, 1, 150, 255, 256, 301} {
		leaf, proof, err := r.Prove(t.Context(), origin, seq)
		if err != nil {
			t.Fatal(err)
		}
		got, err := receipts.VerifyProof(identity(t, m), leaf, proof)
		if err != nil || got.Seq != seq || got.Log != origin {
			t.Errorf("%d: %+v, %v", seq, got, err)
		}
		bad := bytes.Replace(leaf, []byte(`"ts":1`), []byte(`"ts":2`), 1)
		if _, err := receipts.VerifyProof(identity(t, m), bad, proof); err == nil {
			t.Errorf("%d: another leaf passes", seq)
		}
		for _, line := range []int{1, 3} {
			lines := strings.Split(string(proof), "\n")
			k, v, ok := strings.Cut(lines[line], " ")
			if !ok {
				k, v = "", k
			}
			b, _ := base64.StdEncoding.DecodeString(v)
			b[len(b)/2] ^= 1
			lines[line] = strings.TrimPrefix(k+" "+base64.StdEncoding.EncodeToString(b), " ")
			if _, err := receipts.VerifyProof(identity(t, m), leaf, []byte(strings.Join(lines, "\n"))); err == nil {
				t.Errorf("%d: changed line %d passes", seq, line)
			}
		}
	}
	if _, _, err := r.Prove(t.Context(), origin, 302); err == nil {
		t.Error("proof of a record that is not there")
	}
	other := disktest.New()
	life(t, other, 1)
	leaf, proof, _ := r.Prove(t.Context(), origin, 1)
	if _, err := receipts.VerifyProof(identity(t, other), leaf, proof); err == nil {
		t.Error("a proof passes under another identity")
	}
}

func TestReader(t *testing.T) {
	m := disktest.New()
	a := life(t, m, 400)
	b := life(t, m, 3)
	r := receipts.NewReader(m.View("/data"))
	if logs, err := r.Logs(); err != nil || fmt.Sprint(logs) != fmt.Sprint([]string{a, b}) {
		t.Errorf("logs: %v, %v", logs, err)
	}
	last, err := r.Last(t.Context(), 7, receipts.Query{})
	if err != nil || len(last) != 7 || last[6].Receipt.Seq != 4 || last[0].Receipt.Seq != 400 || last[0].Receipt.Log != a {
		t.Errorf("last: %d, %v", len(last), err)
	}
	if _, err := r.Get(t.Context(), b, 99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get: %v", err)
	}
	n := 0
	for e, err := range r.Select(t.Context(), receipts.Query{Since: last[3].Receipt.Time}) {
		if err != nil || e.Receipt.Time.Before(last[3].Receipt.Time) {
			t.Fatal(e, err)
		}
		n++
	}
	if n < 4 || n > 10 {
		t.Errorf("since: %d", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for e, err := range r.Select(ctx, receipts.Query{Follow: time.Millisecond, Types: []receipts.Type{receipts.TypeDecision}}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if seen == 403 { // at the end: more is written, in this log's successor
			life(t, m, 2)
		}
		if seen == 405 {
			if e.Receipt.Log == b {
				t.Error("followed into the wrong log")
			}
			cancel()
		}
	}
	if seen != 405 {
		t.Errorf("followed %d", seen)
	}
}
