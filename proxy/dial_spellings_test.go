package proxy

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stoplog/stoplog"
)

// Some resolvers turn numbers into addresses, depending on how the program was built (chrisvel/tududi#1407): such a host is
// refused before any resolver is asked, even where the network that it means is allowed. A name with capitals and a final
// dot is the same name.
func TestNumericHostsAreNotResolved(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	asked := ""
	g := &Guard{
		Allowed: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			asked = host
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}
	for _, host := range []string{"2130706433", "127.1", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "[[api.slack.com]]"} {
		c, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err == nil {
			c.Close()
		}
		if err == nil || asked != "" {
			t.Errorf("%s: error %v, resolver asked for %q; want neither a connection nor a look-up", host, err, asked)
		}
		asked = ""
	}
	c, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort("API.SLACK.COM.", port))
	if err != nil || asked != "API.SLACK.COM." {
		t.Fatalf("a name: %v, asked for %q", err, asked)
	}
	c.Close()
}

// The address inside an address decides, also when it is written out instead of looked up.
func TestLiteralAddressesAreChecked(t *testing.T) {
	g := &Guard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, host := range []string{
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::169.254.169.254", "169.254.169.254", "100.64.0.1", "fe80::1%lo",
	} {
		c, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "80"))
		if err == nil {
			c.Close()
		}
		if stoplog.ReasonOf(err) != stoplog.ReasonAddressDenied {
			t.Errorf("%s: %v, want address_denied", host, err)
		}
	}
}
