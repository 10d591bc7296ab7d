package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stoplog/stoplog/internal/operator"
)

// reply is what the agent got.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// reason is the refusal's reason, in whatever shape the vendor's client expects it; "" for an answer of the destination.
func (r reply) reason() string {
	var p struct {
		Reason  string `json:"reason"`
		Stoplog struct {
			Reason string `json:"reason"`
		} `json:"stoplog"`
	}
	if json.Unmarshal(r.body, &p) != nil {
		return ""
	}
	if p.Reason == "" {
		return p.Stoplog.Reason
	}
	return p.Reason
}

// call is one request of the agent, an ordinary HTTP client that knows the base URL and nothing else.
func (s *stage) call(ctx context.Context, method, destination, path, body string) (reply, error) {
	resp, err := s.open(ctx, method, destination, path, body)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

func (s *stage) open(ctx context.Context, method, destination, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.app.URL(destination)+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body = http.NoBody
	}
	return s.agent.Do(req)
}

// raise and lower are what `stoplog level` does.
func (s *stage) raise(ctx context.Context, level, why string) error {
	_, err := s.people.ChangeLevel(ctx, operator.LevelChange{Action: "raise", Scope: "fleet", Level: level, Reason: why})
	if err == nil {
		s.say("$ stoplog level raise %s --reason %q", level, why)
	}
	return err
}

func (s *stage) lower(ctx context.Context, why string) error {
	levels, err := s.people.Levels(ctx)
	if err != nil {
		return err
	}
	done, err := s.people.ChangeLevel(ctx, operator.LevelChange{Action: "lower", Scope: "fleet", Level: "L0", Reason: why, Seen: levels[0].Epoch})
	if err != nil {
		return err
	}
	s.say("$ stoplog level lower L0 --reason %q", why)
	if done.Level != "L0" {
		return fmt.Errorf("the level stays at %s", done.Level)
	}
	return nil
}

// onlyHold is the one effect that is kept now.
func (s *stage) onlyHold(ctx context.Context) (operator.Operation, error) {
	holds, err := s.people.Holds(ctx)
	if err != nil {
		return operator.Operation{}, err
	}
	if len(holds) != 1 || holds[0].Hold == nil {
		return operator.Operation{}, fmt.Errorf("%d effects are kept, want 1", len(holds))
	}
	return holds[0], nil
}

var errNever = errors.New("it did not happen within five seconds")

// eventually waits for what happens beside a call.
func eventually(ctx context.Context, f func() (bool, error)) error {
	for end := time.Now().Add(5 * time.Second); ; {
		ok, err := f()
		switch {
		case ok || err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return errNever
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func sum(b []byte) string {
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:8]) + "…"
}
