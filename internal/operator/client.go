package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

// ErrUnreachable is the error of every call when no sidecar answers.
var ErrUnreachable = errors.New("no sidecar answers")

// Client calls the API of a running sidecar.
type Client struct {
	where string // for messages
	base  string
	token string
	http  *http.Client
}

// Dial makes a client of the Unix socket. Nothing is sent before the first call.
func Dial(socket string) *Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	return &Client{where: socket, base: "http://sidecar", http: &http.Client{Transport: t}}
}

// DialAdmin makes a client of the admin port, which opens with the operator token.
func DialAdmin(base, token string) *Client {
	t := &http.Transport{Proxy: nil} // never through a proxy: the token is for the sidecar alone
	return &Client{where: base, base: strings.TrimSuffix(base, "/"), token: token, http: &http.Client{Transport: t}}
}

// do sends one call. A Problem of the sidecar is the error.
func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, c.where, err)
	case resp.StatusCode == http.StatusOK:
		return resp, nil
	}
	defer resp.Body.Close()
	p := &Problem{}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(p)
	if err != nil || p.Status == 0 {
		return nil, fmt.Errorf("%s %s: the sidecar answered %s", method, path, resp.Status)
	}
	return nil, p
}

func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var out T
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&out)
	if err != nil {
		return out, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return out, nil
}

func list[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	l, err := call[List[T]](ctx, c, http.MethodGet, path, nil)
	return l.Items, err
}

// Version of the sidecar.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return call[Version](ctx, c, http.MethodGet, "/v1/version", nil)
}

// Levels lists the kill switch of every scope that has one, the fleet first.
func (c *Client) Levels(ctx context.Context) ([]Level, error) {
	return list[Level](ctx, c, "/v1/levels")
}

// ChangeLevel raises or lowers.
func (c *Client) ChangeLevel(ctx context.Context, ch LevelChange) (LevelChanged, error) {
	return call[LevelChanged](ctx, c, http.MethodPost, "/v1/levels", ch)
}

// Breakers lists all breakers.
func (c *Client) Breakers(ctx context.Context) ([]Breaker, error) {
	return list[Breaker](ctx, c, "/v1/breakers")
}

// ForceBreaker moves one breaker and lists all.
func (c *Client) ForceBreaker(ctx context.Context, destination string, f BreakerForce) ([]Breaker, error) {
	l, err := call[List[Breaker]](ctx, c, http.MethodPost, "/v1/breakers/"+url.PathEscape(destination)+":force", f)
	return l.Items, err
}

// Budgets lists the accounts of all budgets.
func (c *Client) Budgets(ctx context.Context) ([]Budget, error) {
	return list[Budget](ctx, c, "/v1/budgets")
}

// Destinations lists what is configured, with what limits have left.
func (c *Client) Destinations(ctx context.Context) ([]DestinationStatus, error) {
	return list[DestinationStatus](ctx, c, "/v1/destinations")
}

// Holds lists kept effects, oldest first.
func (c *Client) Holds(ctx context.Context) ([]Operation, error) {
	return list[Operation](ctx, c, "/v1/holds")
}

// Operations lists what has not ended.
func (c *Client) Operations(ctx context.Context) ([]Operation, error) {
	return list[Operation](ctx, c, "/v1/operations")
}

// Release releases one hold.
func (c *Client) Release(ctx context.Context, id string) (ReleaseAnswer, error) {
	return call[ReleaseAnswer](ctx, c, http.MethodPost, "/v1/holds/"+url.PathEscape(id)+":release", ReleaseRequest{})
}

// ReleaseMany releases a selection, or counts it.
func (c *Client) ReleaseMany(ctx context.Context, r ReleaseRequest) (ReleaseAnswer, error) {
	return call[ReleaseAnswer](ctx, c, http.MethodPost, "/v1/holds:release", r)
}

// Withdraw ends a hold without sending it.
func (c *Client) Withdraw(ctx context.Context, id, reason string) (Operation, error) {
	return call[Operation](ctx, c, http.MethodPost, "/v1/holds/"+url.PathEscape(id)+":withdraw", WithdrawRequest{Reason: reason})
}

// Config is the configuration in force.
func (c *Client) Config(ctx context.Context) (ConfigDump, error) {
	return call[ConfigDump](ctx, c, http.MethodGet, "/v1/config", nil)
}

// Reload has the configuration's files read anew.
func (c *Client) Reload(ctx context.Context) (ConfigVersion, error) {
	return call[ConfigVersion](ctx, c, http.MethodPost, "/v1/config:reload", struct{}{})
}

// Receipts calls fn for every receipt that q picks; with follow it goes on until ctx ends.
func (c *Client) Receipts(ctx context.Context, q Query, follow bool, fn func(*receipts.Receipt) error) error {
	v := q.values()
	if follow {
		v.Set("follow", "true")
	}
	resp, err := c.do(ctx, http.MethodGet, "/v1/receipts?"+v.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), receipts.MaxLeaf+1)
	for lines.Scan() {
		r, err := receipts.Decode(lines.Bytes())
		if err != nil {
			return err
		}
		err = fn(r)
		if err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("receipts: %w: %w", ErrUnreachable, err)
	}
	return nil
}

// Find returns the receipt, or the receipts of the operation, that ref names.
func (c *Client) Find(ctx context.Context, ref string) ([]*receipts.Receipt, error) {
	at, operation, err := ParseRef(ref)
	if err != nil {
		return nil, stoplog.Refuse(stoplog.ReasonNotFound, err.Error())
	}
	switch {
	case operation != "":
		ref = operation
	case at.Log != "":
		ref = at.String()
	}
	leaves, err := list[json.RawMessage](ctx, c, "/v1/receipts/"+url.PathEscape(ref))
	if err != nil {
		return nil, err
	}
	out := make([]*receipts.Receipt, 0, len(leaves))
	for _, leaf := range leaves {
		r, err := receipts.Decode(leaf)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
