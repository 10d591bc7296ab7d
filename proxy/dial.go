package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
)

// Guard dials only addresses that a destination may be at. The name is resolved once and the checked addresses are the ones
// dialled, so that a second answer of the resolver changes nothing (DNS rebinding).
type Guard struct {
	Allowed []netip.Prefix // private networks that the destination names
	// Own reports the addresses that this process listens at; they are never dialled.
	Own func(netip.AddrPort) bool
	// Lookup resolves a name; nil = the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// errDenied is a *stoplog.Error, so that the reason reaches the receipt.
func errDenied(detail string) error { return stoplog.Refuse(stoplog.ReasonAddressDenied, detail) }

// DialContext dials "host:port" over TCP.
func (g *Guard) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("dial %s: port: %w", addr, err)
	}
	ips, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, ip := range ips {
		if err := g.check(netip.AddrPortFrom(ip, uint16(p))); err != nil {
			return nil, err // one bad address condemns the set: an answer may be reordered at will
		}
	}
	d := net.Dialer{KeepAlive: 30 * time.Second}
	var errs []error
	for _, ip := range ips {
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip, uint16(p)).String())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if err := CheckHost(host); err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	lookup := g.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, h string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", h)
		}
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("resolve %s: no address", host)
	}
	return ips, nil
}

func (g *Guard) check(ap netip.AddrPort) error {
	if g.Own != nil && g.Own(netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())) {
		return errDenied("the address is this sidecar's own listener")
	}
	ip := Embedded(ap.Addr())
	if Public(ap.Addr()) {
		return nil
	}
	for _, p := range g.Allowed {
		if p.Contains(ip) || p.Contains(ap.Addr()) {
			return nil
		}
	}
	return errDenied("the name resolves to a private, loopback, link-local or otherwise special address that the destination does not name in allowed_networks")
}

// CheckHost refuses host names with more than one reading: numeric forms that some resolvers turn into addresses
// ("2130706433", "127.1", "0x7f.1") and anything that is neither a plain name nor an address.
func CheckHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		if strings.Contains(host, "%") {
			return errDenied("the address carries a zone")
		}
		return nil
	}
	h := strings.TrimSuffix(host, ".")
	if h == "" || len(h) > 253 {
		return errDenied("the host name is empty or too long")
	}
	labels := strings.Split(h, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(strings.ToLower(l), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errDenied("the host name is malformed")
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return errDenied("the host looks like a number; write an address in full or use a name")
	}
	return nil
}

// Embedded is the IPv4 address inside an IPv6 address that carries one (mapped, compatible, NAT64, 6to4), else the address
// itself. What the kernel or a gateway would reach decides, not the spelling.
func Embedded(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), nat64Local.Contains(a) && b[4]|b[5] == 0, compatible.Contains(a) && a != netip.IPv6Unspecified() && a != netip.IPv6Loopback():
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")

	// special addresses beyond those that netip's predicates know (IANA special-purpose registries).
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("100::/64"),
		netip.MustParsePrefix("2001::/32"), // Teredo
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("fec0::/10"),
		netip.MustParsePrefix("3fff::/20"),
		netip.MustParsePrefix("5f00::/16"),
	}
)

// Public reports whether an address is an ordinary public one, however it is spelled.
func Public(a netip.Addr) bool {
	for _, x := range [...]netip.Addr{a.Unmap().WithZone(""), Embedded(a)} {
		if !x.IsValid() || !x.IsGlobalUnicast() || x.IsPrivate() || x.IsLoopback() || x.IsLinkLocalUnicast() {
			return false
		}
		for _, p := range special {
			if p.Contains(x) {
				return false
			}
		}
	}
	return true
}
