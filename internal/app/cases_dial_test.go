package app_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoplog/stoplog/internal/app"
)

// Whatever a destination's address is written like, the address that would be dialled decides (librefang/librefang#4085,
// useplunk/plunk#449, nexu-io/open-design#1122): it is refused when the configuration is read, or at the dial.
func TestSpellingsOfAddresses(t *testing.T) {
	for _, host := range []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[::169.254.169.254]", "100.64.0.1",
		"169.254.169.254.", "2130706433", "127.1", "0x7f.1", "[[api.slack.com]]",
	} {
		dir, err := os.MkdirTemp("", "sl")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "c.yaml")
		text := strings.Replace(dest{name: "generic", url: "'http://" + host + "'", perAttempt: "1s"}.yaml(), "127.0.0.0/8", "192.168.7.0/24", 1)
		if err := os.WriteFile(file, []byte("destinations:"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := app.Start(t.Context(), app.Options{Config: []string{file}, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: dir, LogOut: testLog{t}})
		if err != nil {
			if !strings.Contains(err.Error(), "destinations[0].") {
				t.Errorf("%s: %v, want the field named", host, err)
			}
			continue
		}
		got := doCtx(t, t.Context(), "GET", a.URL("generic")+"/latest/meta-data", "")
		if got.status != 403 || got.problem(t).Reason != "address_denied" || got.problem(t).Sent != "none" {
			t.Errorf("%s: %d %s, want address_denied", host, got.status, got.body)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A name is resolved anew for each connection, never trusted from the last one: the answer may have changed in between
// (stripe/smokescreen#49, postel-sh/postel#128, yvgude/lean-ctx#936).
func TestRebindingBetweenConnections(t *testing.T) {
	var n, asked atomic.Int64
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		drain(req)
		n.Add(1)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	answers := []string{"127.0.0.1", "169.254.169.254"}
	s := start(t, []dest{{name: "generic", url: strings.Replace(url, "127.0.0.1", "vendor.test", 1)}}, withOptions(func(o *app.Options) {
		o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(answers[asked.Add(1)-1])}, nil
		}
	}))
	if a := s.do("GET", s.URL("generic")+"/1", ""); a.status != 200 || asked.Load() != 1 {
		t.Fatalf("%d %s after %d look-ups, want 200 after one", a.status, a.body, asked.Load())
	}
	if a := s.do("GET", s.URL("generic")+"/2", ""); a.problem(t).Reason != "address_denied" || n.Load() != 1 {
		t.Errorf("%d %s, %d requests at the vendor; want address_denied", a.status, a.body, n.Load())
	}
}
