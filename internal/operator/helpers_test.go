package operator_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
)

// serve opens a fake's API on a Unix socket and gives its client.
func serve(t *testing.T, f *operatortest.Fake) *operator.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "op") // short: a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := operator.Serve(filepath.Join(dir, operator.SocketName), operator.New(f.Deps()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return operator.Dial(s.Path())
}

// admin opens a fake's API on a port.
func admin(t *testing.T, f *operatortest.Fake) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(operator.New(f.Deps()))
	t.Cleanup(s.Close)
	return s
}

func send(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			req.Host = header[i+1]
		case header[i+1] == "":
			req.Header.Del(header[i])
		default:
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func problem(t *testing.T, err error) *operator.Problem {
	t.Helper()
	p, ok := err.(*operator.Problem)
	if !ok {
		t.Fatalf("want a problem, got %v", err)
	}
	return p
}

func adminOf(t *testing.T, d operator.Deps) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(operator.New(d))
	t.Cleanup(s.Close)
	return s
}

// leaveBehind makes a socket that nobody serves.
func leaveBehind(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
}
