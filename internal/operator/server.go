package operator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator/reasons"
	"github.com/stoplog/stoplog/receipts"
)

// Limits of what a caller may send.
const (
	maxRequest = 1 << 20
	maxReason  = 512
)

type server struct {
	Deps
	changes sync.Mutex // one change at a time, so that a receipt's "from" is what the change really met
	marks   []byte     // key of recipients' marks
}

// New makes the API's handler. Give it to Serve for the Unix socket, and mount it on the admin port.
func New(d Deps) http.Handler {
	if d.ReleaseTime <= 0 {
		d.ReleaseTime = time.Minute
	}
	s := &server{Deps: d, marks: make([]byte, 32)}
	_, _ = rand.Read(s.marks) // never fails (crypto/rand)

	m := http.NewServeMux()
	open := func(pattern string, h handler) { m.Handle(pattern, s.handle(h, false)) }
	only := func(pattern string, h handler) { m.Handle(pattern, s.handle(h, true)) }

	// Open to whoever reaches the admin port. Nothing here changes anything, and what it shows names no one.
	open("GET /problems/{reason}", s.problemPage)
	open("GET /v1/levels", s.getLevels)
	open("GET /v1/breakers", s.getBreakers)
	open("GET /v1/version", s.getVersion)

	// Operators only.
	only("POST /v1/levels", s.postLevels)
	only("POST /v1/breakers/{target}", s.postBreaker)
	only("GET /v1/budgets", s.getBudgets)
	only("GET /v1/destinations", s.getDestinations)
	only("GET /v1/holds", s.getHolds)
	only("POST /v1/holds:release", s.postRelease)
	only("POST /v1/holds/{target}", s.postHold)
	only("GET /v1/operations", s.getOperations)
	only("GET /v1/operations/{id}", s.getOperation)
	only("GET /v1/receipts", s.getReceipts)
	only("GET /v1/receipts/{ref...}", s.getReceipt)
	only("GET /v1/config", s.getConfig)
	only("POST /v1/config:reload", s.postReload)
	only("/", func(http.ResponseWriter, *http.Request, identity) error {
		return refuse(http.StatusNotFound, stoplog.ReasonNotFound, "no such call")
	})
	return m
}

// handler answers, or returns an error that handle renders. identity is empty only on calls that are open.
type handler func(w http.ResponseWriter, r *http.Request, who identity) error

// handle is the way of every call: guard against browsers, find out who it is, run, render the error.
func (s *server) handle(h handler, operators bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.admit(r, operators)
		if err == nil {
			w.Header().Set("Cache-Control", "no-store")
			err = h(w, r, who)
		}
		if err != nil {
			writeProblem(w, err)
		}
	})
}

// admit refuses what a web page could make a browser send, then asks for the operator where one is needed.
func (s *server) admit(r *http.Request, operators bool) (identity, error) {
	if r.Header.Get("Origin") != "" {
		return identity{}, refuse(http.StatusForbidden, stoplog.ReasonOperatorOnly, "requests from web pages are refused")
	}
	peer, local := peerOf(r.Context())
	if !local && !s.hostAllowed(r.Host) {
		return identity{}, refuse(http.StatusForbidden, stoplog.ReasonAmbiguousHost,
			"the Host of an admin request must be an IP address or localhost (guard against DNS rebinding)")
	}
	who := peer
	if !local {
		who = s.bearer(r)
	}
	if operators && who.name == "" {
		return identity{}, refuse(http.StatusForbidden, stoplog.ReasonOperatorOnly,
			"this call needs the operator: use the stoplog command on the sidecar's machine, or the operator token")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		// A form or a text/plain body can cross origins without a preflight; this type cannot.
		media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || media != "application/json" {
			return identity{}, refuse(http.StatusUnsupportedMediaType, stoplog.ReasonMalformedBody, "changes need Content-Type: application/json")
		}
	}
	return who, nil
}

// read decodes a request body strictly: unknown and duplicate names and trailing data are errors.
func read(r *http.Request, v any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil || len(b) > maxRequest {
		return refuse(http.StatusBadRequest, stoplog.ReasonBodyTooLarge, "the request body cannot be read or is too large")
	}
	if len(b) == 0 {
		b = []byte("{}")
	}
	err = jsonv2.Unmarshal(b, v, jsonv2.RejectUnknownMembers(true))
	if err != nil {
		return refuse(http.StatusBadRequest, stoplog.ReasonMalformedBody, err.Error())
	}
	return nil
}

// reason checks a human's words.
func reason(s string, needed bool) (string, error) {
	s = strings.TrimSpace(s)
	switch {
	case s == "" && needed:
		return "", refuse(http.StatusBadRequest, stoplog.ReasonOperatorOnly, "a reason is needed: it goes into the receipt")
	case len(s) > maxReason:
		return "", refuse(http.StatusBadRequest, stoplog.ReasonMalformedBody, "the reason is longer than 512 bytes")
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", refuse(http.StatusBadRequest, stoplog.ReasonMalformedBody, "the reason has control characters")
	}
	return s, nil
}

// record writes the receipt of a change.
func (s *server) record(ctx context.Context, t receipts.Type, note map[string]string) (*Ref, error) {
	pos, err := s.Log.Append(ctx, &receipts.Receipt{Type: t, Policy: s.Config.Version(), Note: note})
	if err != nil {
		return nil, &stoplog.Error{Reason: stoplog.ReasonEvidenceUnavailable, Detail: "the change cannot be recorded, so it was not made", Err: err}
	}
	if len(pos) == 0 {
		return &Ref{}, nil
	}
	return &Ref{Log: pos[0].Log, Seq: pos[0].Seq}, nil
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return ignoreGone(json.NewEncoder(w).Encode(v))
}

// A client that left cannot be told so.
func ignoreGone(error) error { return nil }

func (s *server) getVersion(w http.ResponseWriter, _ *http.Request, _ identity) error {
	return answer(w, Version{Version: s.Version})
}

// refuse makes a Problem.
func refuse(status int, r stoplog.Reason, detail string) *Problem {
	e, _ := reasons.Lookup(r)
	return &Problem{Type: "/problems/" + string(r), Title: e.Title, Status: status, Reason: string(r), Detail: detail}
}

// problemOf gives every error its HTTP status. What is not meant for callers becomes "internal".
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var e *stoplog.Error
	if !errors.As(err, &e) {
		return refuse(http.StatusInternalServerError, stoplog.ReasonInternal, "")
	}
	status := http.StatusConflict
	switch e.Reason {
	case stoplog.ReasonNotFound:
		status = http.StatusNotFound
	case stoplog.ReasonOperatorOnly:
		status = http.StatusForbidden
	case stoplog.ReasonInternal:
		status = http.StatusInternalServerError
	case stoplog.ReasonEvidenceUnavailable, stoplog.ReasonStoreUnavailable, stoplog.ReasonStoreStateMissing,
		stoplog.ReasonConfigNotReady, stoplog.ReasonDraining, stoplog.ReasonOverloaded:
		status = http.StatusServiceUnavailable
	}
	return refuse(status, e.Reason, e.Detail)
}

func writeProblem(w http.ResponseWriter, err error) {
	p := problemOf(err)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// instant leaves out times that are not known.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
