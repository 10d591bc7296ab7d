package proxy

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
)

// Spellings of addresses that must not be dialled (librefang/librefang#4085, stripe/smokescreen#163).
func TestPublic(t *testing.T) {
	for in, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true,
		"127.0.0.1": false, "::1": false, "0.0.0.0": false, "::": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "fe80::1": false, "fd00::1": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::ffff:169.254.169.254": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::": false, "::169.254.169.254": false,
		"64:ff9b::7f00:1": false, "192.0.2.1": false, "198.18.0.1": false, "240.0.0.1": false, "2001:db8::1": false, "fec0::1": false,
		"64:ff9b::808:808": true, "2002:808:808::1": true,
	} {
		if got := Public(netip.MustParseAddr(in)); got != want {
			t.Errorf("Public(%s) = %v, want %v", in, got, want)
		}
	}
}

// Numeric host forms that resolve on some builds only (chrisvel/tududi#1407).
func TestCheckHost(t *testing.T) {
	for _, ok := range []string{"api.slack.com", "API.SLACK.COM.", "127.0.0.1", "::1", "localhost", "a_b.example", "xn--bcher-kva.example", "1password.com"} {
		if err := CheckHost(ok); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{"2130706433", "127.1", "0x7f.1", "0x7f000001", "169.254.169.254.", "[api.slack.com]", "", "a..b", "ex ample.com", "exämple.com", "fe80::1%eth0", strings.Repeat("a", 64) + ".com"} {
		if stoplog.ReasonOf(CheckHost(bad)) != stoplog.ReasonAddressDenied {
			t.Errorf("%q passes", bad)
		}
	}
}

// DNS rebinding and mixed answers (stripe/smokescreen#49, yvgude/lean-ctx#936): the name is resolved once, the set is
// condemned by its worst address, and what was checked is what is dialled.
func TestGuardDial(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	answers := [][]netip.Addr{}
	asked := 0
	g := &Guard{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		a := answers[min(asked, len(answers)-1)]
		asked++
		return a, nil
	}}
	ip := netip.MustParseAddr
	dial := func(allowed []netip.Prefix, a ...[]netip.Addr) error {
		answers, asked, g.Allowed = a, 0, allowed
		c, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort("name.example", port))
		if err == nil {
			c.Close()
		}
		return err
	}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if err := dial(loopback, []netip.Addr{ip("127.0.0.1")}, []netip.Addr{ip("169.254.169.254")}); err != nil || asked != 1 {
		t.Errorf("a named network: %v after %d look-ups, want one look-up and a connection", err, asked)
	}
	for name, a := range map[string][]netip.Addr{
		"loopback not named": {ip("127.0.0.1")},
		"public and private": {ip("8.8.8.8"), ip("10.0.0.1")},
		"metadata as NAT64":  {ip("64:ff9b::a9fe:a9fe")},
	} {
		if err := dial(nil, a); stoplog.ReasonOf(err) != stoplog.ReasonAddressDenied {
			t.Errorf("%s: %v, want address_denied", name, err)
		}
	}
	if err := dial(loopback, []netip.Addr{ip("127.0.0.1"), ip("10.0.0.1")}); stoplog.ReasonOf(err) != stoplog.ReasonAddressDenied {
		t.Errorf("an address outside the named networks: %v, want address_denied", err)
	}
	g.Own = func(a netip.AddrPort) bool { return a.Addr().IsLoopback() }
	if err := dial(loopback, []netip.Addr{ip("127.0.0.1")}); stoplog.ReasonOf(err) != stoplog.ReasonAddressDenied {
		t.Errorf("our own listener: %v, want address_denied", err)
	}
}
