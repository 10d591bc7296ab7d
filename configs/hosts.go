package configs

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stoplog/stoplog/configs/configv1"
)

// hosts are a destination's authorities as they are compared: lower case, without the scheme's own port, the URL's first.
func hosts(d *configv1.Destination) []string {
	u, err := url.Parse(d.GetUrl())
	if err != nil {
		return nil
	}
	port := schemePort(u)
	list := []string{canonical(u.Host, port)}
	for _, h := range d.GetHosts() {
		h = canonical(h, port)
		if !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}

// authorities are the hosts, and those without a port also with the scheme's own ("api.github.com:443").
func authorities(d *configv1.Destination) []string {
	list := hosts(d)
	u, err := url.Parse(d.GetUrl())
	if err != nil {
		return list
	}
	for _, h := range slices.Clone(list) {
		if (&url.URL{Host: h}).Port() == "" {
			list = append(list, h+":"+schemePort(u))
		}
	}
	return list
}

func canonical(authority, port string) string {
	return strings.TrimSuffix(strings.ToLower(authority), ":"+port)
}

func schemePort(u *url.URL) string {
	if u.Scheme == "http" {
		return "80"
	}
	return "443"
}

// local reports whether a host is known, without a look-up, to be an address that is dialled only where it is allowed.
func local(host string) (netip.Addr, bool) {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Addr{}, false
	}
	return ip, ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
}

// validHost reports whether a URL's host can be dialled at all.
func validHost(u *url.URL) bool {
	host := u.Hostname()
	if host == "" || strings.HasSuffix(u.Host, ":") {
		return false
	}
	if p := u.Port(); p != "" {
		n, err := net.LookupPort("tcp", p)
		return err == nil && n > 0
	}
	return true
}
