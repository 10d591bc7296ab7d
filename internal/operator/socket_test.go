package operator_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
)

func TestSocketIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s, err := operator.Serve(filepath.Join(dir, "s"), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, s.Path(): 0o600} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, st.Mode(), err)
		}
	}
	_, err = operator.Serve(s.Path(), http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), "another sidecar") {
		t.Errorf("a second sidecar: %v", err)
	}
	err = s.Close(t.Context())
	if err != nil {
		t.Error(err)
	}

	open := filepath.Join(t.TempDir(), "open")
	err = os.Mkdir(open, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = operator.Serve(filepath.Join(open, "s"), http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("a folder that others can enter: %v", err)
	}
	_, err = operator.Serve("/tmp/"+strings.Repeat("x", 120), http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), "operator_socket") {
		t.Errorf("a long path: %v", err)
	}
}

// A socket that a killed sidecar left behind is taken over; a file of another kind is not.
func TestSocketLeftBehind(t *testing.T) {
	dir := t.TempDir()
	err := os.Chmod(dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	leaveBehind(t, path)
	s, err := operator.Serve(path, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close(t.Context())
	err = os.WriteFile(path, []byte("precious"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = operator.Serve(path, http.NotFoundHandler())
	b, _ := os.ReadFile(path)
	if err == nil || string(b) != "precious" {
		t.Errorf("a file in the way: %v, %q", err, b)
	}
}

// Close does not wait for somebody who follows receipts.
func TestCloseCutsFollowers(t *testing.T) {
	f := operatortest.New()
	dir := t.TempDir()
	_ = os.Chmod(dir, 0o700)
	s, err := operator.Serve(filepath.Join(dir, "s"), operator.New(f.Deps()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- operator.Dial(s.Path()).Receipts(t.Context(), operator.Query{}, true, nil) }()
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = s.Close(ctx)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the follower still follows")
	}
}

func TestUnreachable(t *testing.T) {
	_, err := operator.Dial(filepath.Join(t.TempDir(), "none")).Levels(t.Context())
	if !errors.Is(err, operator.ErrUnreachable) {
		t.Error(err)
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	one, err := operator.Token(dir)
	if err != nil || len(one) < 40 {
		t.Fatalf("%q %v", one, err)
	}
	two, err := operator.Token(dir)
	if err != nil || two != one {
		t.Errorf("second start: %q %v", two, err)
	}
	path := filepath.Join(dir, operator.TokenName)
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	_ = os.Chmod(path, 0o640)
	_, err = operator.Token(dir)
	if err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("readable by others: %v", err)
	}
	_ = os.Remove(path)
	_ = os.Symlink("/etc/hostname", path)
	_, err = operator.Token(dir)
	if err == nil {
		t.Error("followed a link")
	}
}
