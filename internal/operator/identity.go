package operator

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// identity is who calls. The zero value is nobody.
type identity struct{ name string } // "user:alice", "token:operator"

type peerKey struct{}

// peerOf is the user at the other end of the Unix socket. Only Serve puts one into a context.
func peerOf(ctx context.Context) (identity, bool) {
	who, ok := ctx.Value(peerKey{}).(identity)
	return who, ok
}

// userOf names a uid. A uid without a name is still somebody.
func userOf(uid int) identity {
	id := strconv.Itoa(uid)
	u, err := user.LookupId(id)
	if err != nil || u.Username == "" {
		return identity{name: "uid:" + id}
	}
	return identity{name: "user:" + u.Username}
}

// bearer checks the operator token in constant time, whatever its length.
func (s *server) bearer(r *http.Request) identity {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.Token))
	if s.Token == "" || !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return identity{}
	}
	return identity{name: "token:operator"}
}

// hostAllowed refuses names that somebody else's DNS could point here.
func (s *server) hostAllowed(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || net.ParseIP(host) != nil || slices.Contains(s.Hosts, host)
}
