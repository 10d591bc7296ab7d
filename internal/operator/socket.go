package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// SocketName is the socket's file in a data directory.
const SocketName = "operator.sock"

// maxSocketPath is what fits into a socket address everywhere.
const maxSocketPath = 103

// Socket is the API on a Unix socket.
type Socket struct {
	path string
	http *http.Server
	wg   sync.WaitGroup
}

// Serve opens the API on a Unix socket. Its folder must belong to this user with mode 0700 (it is made if it is missing), and
// only this user and root get through: the kernel names the peer, the peer does not name itself.
func Serve(path string, h http.Handler) (*Socket, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("operator socket %s: the path is longer than %d bytes; set operator_socket in the bootstrap file", path, maxSocketPath)
	}
	err := privateDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("operator socket: %w", err)
	}
	ln, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("operator socket: %w", err)
	}
	s := &Socket{path: path, http: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, c.(*peerConn).who)
		},
	}}
	s.wg.Go(func() { _ = s.http.Serve(&peerListener{Listener: ln, owner: os.Geteuid()}) }) // ends with ErrServerClosed
	return s, nil
}

// Path of the socket.
func (s *Socket) Path() string { return s.path }

// Close ends the service, waiting for calls under way until ctx ends. Receipts that are being followed are cut.
func (s *Socket) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = s.http.Close()
	}
	s.wg.Wait()
	return err
}

// listen opens the socket with mode 0600 and takes the place of one that nobody serves any more.
func listen(path string) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		c, dialErr := net.DialTimeout("unix", path, time.Second)
		if dialErr == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another sidecar serves %s", path)
		}
		st, statErr := os.Lstat(path)
		if statErr != nil || st.Mode()&fs.ModeSocket == 0 || !errors.Is(dialErr, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("%s is in the way: %w", path, dialErr)
		}
		err = os.Remove(path)
		if err != nil {
			return nil, err
		}
		ln, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	err = os.Chmod(path, 0o600)
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	return ln, nil
}

// privateDir makes sure that nobody else can put a socket in our place.
func privateDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner, ok := st.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("folder %s belongs to another user", dir)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("folder %s has mode %04o, want 0700 (chmod 700 %s)", dir, st.Mode().Perm()&fs.ModePerm, dir)
	}
	return nil
}

// peerListener lets only its owner and root in.
type peerListener struct {
	net.Listener
	owner int
}

type peerConn struct {
	net.Conn
	who identity
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c.(*net.UnixConn))
		if err != nil || !mayOperate(uid, l.owner) {
			_ = c.Close()
			continue
		}
		return &peerConn{Conn: c, who: userOf(uid)}, nil
	}
}

func mayOperate(uid, owner int) bool { return uid == owner || uid == 0 }
