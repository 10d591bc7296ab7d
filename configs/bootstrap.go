package configs

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs/bootstrapv1"
)

// Bootstrap is what a process must know before it can know anything else. It is local and never travels.
type Bootstrap struct {
	Listeners           []Listener
	AdminAddress        string // host:port
	DataDir             string
	OperatorSocket      string // path
	Fsync               bool   // receipts are on stable storage before an effect leaves; false in tests only
	MaxRequestHeadBytes int
	MaxConnections      int
	HeaderTimeout       time.Duration
	LogLevel            string // "debug", "info", "warn", "error"
	LogJSON             bool
	ProblemBaseURL      string // empty = the admin address
}

// Listener is one address that agents connect to.
type Listener struct {
	Address     string // host:port
	Destination string // the only one behind it; empty = the first segment of the path names it
	Actor       stoplog.Actor
	Function    string
}

// DefaultBootstrap is what holds without a bootstrap file.
func DefaultBootstrap() *Bootstrap { return bootstrap(&bootstrapv1.Bootstrap{}) }

// LoadBootstrap reads a bootstrap file; what it leaves out is as in DefaultBootstrap.
func LoadBootstrap(path string) (*Bootstrap, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Errors{{File: path, Problem: reading(err)}}
	}
	return ParseBootstrap(path, data)
}

// ParseBootstrap reads a bootstrap file's text. name is used in errors.
func ParseBootstrap(name string, data []byte) (*Bootstrap, error) {
	msg := &bootstrapv1.Bootstrap{}
	d := decode(name, data, msg)
	checkAddresses(d, msg)
	err := d.errs.orNil()
	if err != nil {
		return nil, err
	}
	return bootstrap(msg), nil
}

// Check reports listeners of destinations that the snapshot does not have.
func (b *Bootstrap) Check(s *Snapshot) error {
	var errs Errors
	for i, l := range b.Listeners {
		if l.Destination != "" && s.Destination(l.Destination) == nil {
			var names []string
			for _, d := range s.Destinations() {
				names = append(names, d.Name)
			}
			errs = append(errs, &Error{
				Field:   fmt.Sprintf("listeners[%d].destination", i),
				Problem: fmt.Sprintf("%q is no destination", l.Destination),
				Mend:    mendName(l.Destination, names),
			})
		}
	}
	return errs.orNil()
}

func checkAddresses(d *document, msg *bootstrapv1.Bootstrap) {
	taken := map[string]string{}
	check := func(path, address string) {
		host, port, err := net.SplitHostPort(address)
		n, portErr := strconv.ParseUint(port, 10, 16)
		_, ipErr := netip.ParseAddr(host)
		if err != nil || portErr != nil || ipErr != nil && host != "localhost" {
			d.tellAt(path, fmt.Sprintf("%q is no address to listen at", address), `an IP address and a port: "127.0.0.1:7070"`)
			return
		}
		if first, twice := taken[address]; twice && n != 0 {
			d.tellAt(path, fmt.Sprintf("%s is used by %s already", address, first), "choose another port")
		}
		taken[address] = path
	}
	for i, l := range msg.GetListeners() {
		check(fmt.Sprintf("listeners[%d].address", i), l.GetAddress())
	}
	if msg.GetAdminAddress() != "" {
		check("admin_address", msg.GetAdminAddress())
	}
}

func bootstrap(m *bootstrapv1.Bootstrap) *Bootstrap {
	b := &Bootstrap{
		AdminAddress:        or(m.GetAdminAddress(), "127.0.0.1:7071"),
		DataDir:             or(m.GetDataDir(), dataDir()),
		Fsync:               m.GetDurability() != bootstrapv1.Bootstrap_NONE,
		MaxRequestHeadBytes: int(orDefault(uint64(m.GetEmergency().GetMaxRequestHeadBytes()), 64<<10)),
		MaxConnections:      int(orDefault(uint64(m.GetEmergency().GetMaxConnections()), 4096)),
		HeaderTimeout:       duration(m.GetEmergency().GetHeaderTimeout(), 10*time.Second),
		LogLevel:            "info",
		LogJSON:             m.GetLog().GetFormat() == bootstrapv1.Bootstrap_Log_JSON,
		ProblemBaseURL:      m.GetProblemBaseUrl(),
	}
	b.OperatorSocket = or(m.GetOperatorSocket(), filepath.Join(b.DataDir, "operator.sock"))
	switch m.GetLog().GetLevel() {
	case bootstrapv1.Bootstrap_Log_DEBUG:
		b.LogLevel = "debug"
	case bootstrapv1.Bootstrap_Log_WARN:
		b.LogLevel = "warn"
	case bootstrapv1.Bootstrap_Log_ERROR:
		b.LogLevel = "error"
	default:
	}
	for _, l := range m.GetListeners() {
		a := l.GetActor()
		b.Listeners = append(b.Listeners, Listener{
			Address: l.GetAddress(), Destination: l.GetDestination(), Function: l.GetFunction(),
			Actor: stoplog.Actor{Tenant: or(a.GetTenant(), "local"), Org: a.GetOrg(), Agent: a.GetAgent()},
		})
	}
	if len(b.Listeners) == 0 {
		b.Listeners = []Listener{{Address: "127.0.0.1:7070", Actor: stoplog.Actor{Tenant: "local"}}}
	}
	return b
}

// dataDir is where programs of this user keep their data.
func dataDir() string {
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "stoplog")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "stoplog")
	}
	return filepath.Join(home, ".local", "share", "stoplog")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
