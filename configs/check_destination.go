package configs

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/stoplog/stoplog/configs/configv1"
)

func (c *checker) checkDestinations() {
	owner := map[string]item[*configv1.Destination]{}
	for _, x := range collectItems(c, "destinations", (*configv1.Bundle).GetDestinations) {
		checkURL(x)
		checkHosts(x)
		checkNetworks(x)
		checkCredential(x)
		checkLimits(x)
		if name := x.v.GetConnectorProfile(); name != "" {
			problem, mend := c.profile(name)
			if problem != "" {
				x.tell("connector_profile", problem, mend)
			}
		}
		for i, h := range hosts(x.v) {
			o, taken := owner[h]
			if !taken {
				owner[h] = x
				continue
			}
			// Two accounts at one service are two destinations; two readings of one service's traffic are a way round rules.
			if o.v == x.v || o.v.GetConnectorProfile() == x.v.GetConnectorProfile() {
				continue
			}
			field := "url"
			if i > 0 {
				field = "hosts"
			}
			x.tell(field, fmt.Sprintf("the host %s belongs to destination %q%s, which reads it by another profile", h, o.v.GetName(), o.where(x.d)),
				"give both the same connector_profile")
		}
	}
}

func checkURL(x item[*configv1.Destination]) {
	u, err := url.Parse(x.v.GetUrl())
	switch {
	case x.v.GetUrl() == "":
	case err != nil || !validHost(u):
		x.tell("url", fmt.Sprintf("%q is no URL that can be called", x.v.GetUrl()), `for example "https://api.example.com"`)
	case strings.ContainsAny(x.v.GetUrl(), "%*") || !plainPath(u.Path):
		x.tell("url", "its host or path has more than one spelling", "write it plainly, without escapes, dots or empty segments")
	}
}

func checkHosts(x item[*configv1.Destination]) {
	for i, h := range x.v.GetHosts() {
		if !validHost(&url.URL{Host: h}) {
			x.tell(fmt.Sprintf("hosts[%d]", i), fmt.Sprintf("%q is no host", h), `for example "files.example.com"`)
		}
	}
}

func plainPath(p string) bool {
	p = strings.TrimRight(p, "/")
	return p == "" || path.Clean(p) == p
}

func checkNetworks(x item[*configv1.Destination]) {
	var nets []netip.Prefix
	for i, n := range x.v.GetAllowedNetworks() {
		field := fmt.Sprintf("allowed_networks[%d]", i)
		p, err := netip.ParsePrefix(n)
		switch {
		case err != nil:
			x.tell(field, fmt.Sprintf("%q is no network", n), `for example "10.20.0.0/16"`)
		case p.Bits() == 0:
			x.tell(field, "allows every address, private ones and those of cloud metadata included", "name the network that is meant")
		case p != p.Masked():
			x.tell(field, fmt.Sprintf("%s is an address, not a network", n), fmt.Sprintf(`"%s" or "%s"`, p.Masked(), netip.PrefixFrom(p.Addr(), p.Addr().BitLen())))
		default:
			nets = append(nets, p)
		}
	}
	u, err := url.Parse(x.v.GetUrl())
	if err != nil {
		return
	}
	ip, private := local(u.Hostname())
	allowed := slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	if private && !allowed {
		x.tell("allowed_networks", fmt.Sprintf("%s is not a public address and would never be dialled", u.Hostname()),
			fmt.Sprintf("add e.g. %q", "allowed_networks: ["+netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()).String()+"]"))
	}
}

// Headers that belong to the connection or to Stoplog.
var reservedHeaders = []string{
	"connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

func checkCredential(x item[*configv1.Destination]) {
	k := x.v.GetCredential()
	if k == nil {
		return
	}
	h := strings.ToLower(k.GetHeader())
	if slices.Contains(reservedHeaders, h) || strings.HasPrefix(h, "stoplog-") {
		x.tell("credential.header", fmt.Sprintf("%q cannot carry a credential", k.GetHeader()), `for example "Authorization"`)
	}
	if strings.ContainsFunc(k.GetPrefix(), func(r rune) bool { return r < ' ' || r > '~' }) {
		x.tell("credential.prefix", "holds a character that no header may carry", "")
	}
	u, err := url.Parse(x.v.GetUrl())
	if err == nil && u.Scheme == "http" && len(x.v.GetAllowedNetworks()) == 0 {
		x.tell("credential", "would travel unencrypted: the destination's url is http", "use https")
	}
}

func checkLimits(x item[*configv1.Destination]) {
	l := x.v.GetLimit()
	if l.GetMaxConcurrency() > 0 && l.GetTenantShareBps() > 0 && tenantSeats(l) < 1 {
		least := (10_000 + l.GetMaxConcurrency() - 1) / l.GetMaxConcurrency()
		x.tell("limit.tenant_share_bps",
			fmt.Sprintf("%d of 10000 of %d seats is less than one seat: every tenant would be refused", l.GetTenantShareBps(), l.GetMaxConcurrency()),
			fmt.Sprintf("at least %d", least))
	}
	b := x.v.GetBreaker()
	if m := b.GetMaxCooldown(); m != nil && m.AsDuration() < b.GetCooldown().AsDuration() {
		x.tell("breaker.max_cooldown", "shorter than cooldown", "at least "+b.GetCooldown().AsDuration().String())
	}
	if r := x.v.GetRetry(); r.GetMinUsefulAttempt().AsDuration() > x.v.GetDeadline().GetTotal().AsDuration() && x.v.GetDeadline() != nil {
		x.tell("retry.min_useful_attempt", "longer than the deadline: no attempt could begin", "")
	}
}
