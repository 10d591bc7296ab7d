package fakevendor

import (
	"errors"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody bounds what a fake reads; beyond it the answer is 413.
const maxBody = 32 << 20

// vendor is one fake: routes over in-memory state, a record of what came, and the faults to play.
type vendor struct {
	name   string
	build  func(*vendor) *http.ServeMux
	keep   int
	frames time.Duration

	mu       sync.Mutex
	base     string
	routes   *http.ServeMux
	requests []*Request
	effects  []Effect
	faults   []*Fault
	lastReq  int64
	lastID   int64
}

func (v *vendor) reset() {
	routes := v.build(v)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.routes, v.requests, v.effects, v.faults, v.lastReq, v.lastID = routes, nil, nil, nil, 0, 0
}

func (v *vendor) setBase(u string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.base = u
}

func (v *vendor) baseURL() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.base
}

// nextID counts the things that the vendor creates.
func (v *vendor) nextID() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lastID++
	return v.lastID
}

// id makes an identifier like "ch_fake0000000007".
func (v *vendor) id(prefix string) string {
	n := strconv.FormatInt(v.nextID(), 10)
	return prefix + "fake" + strings.Repeat("0", max(0, 10-len(n))) + n
}

// ServeHTTP records the request, plays the fault that matches it, if any, and lets the routes answer.
func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	fault, req := v.arrive(r, body)
	defer func() {
		if r.Context().Err() != nil {
			v.mu.Lock()
			req.Gone = true
			v.mu.Unlock()
		}
	}()
	var tooLarge *http.MaxBytesError
	if errors.As(readErr, &tooLarge) {
		http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
		return
	}
	if readErr != nil { // the client broke off: nothing of it is applied
		panic(http.ErrAbortHandler)
	}
	x := &exchange{ResponseWriter: w, r: r, v: v, body: body, id: req.ID, fault: fault, interval: v.frames}
	fault.play(x, func() { v.route(x) })
}

// arrive records the request and takes the first fault that matches.
func (v *vendor) arrive(r *http.Request, body []byte) (Fault, *Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lastReq++
	req := &Request{
		ID: v.lastReq, Time: time.Now(), Proto: r.Proto, Method: r.Method, Target: r.RequestURI, Host: r.Host,
		Header: r.Header.Clone(), ContentLength: r.ContentLength, Body: body, Remote: r.RemoteAddr,
	}
	if req.Target == "" { // a request that was built in process
		req.Target = r.URL.RequestURI()
	}
	v.requests = last(append(v.requests, req), v.keep)
	for i, f := range v.faults {
		if !f.matches(r.Method, r.URL.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		taken := *f
		if f.Times > 0 {
			f.Times--
			if f.Times == 0 {
				v.faults = append(v.faults[:i:i], v.faults[i+1:]...)
			}
		}
		req.Fault = string(taken.Kind)
		return taken, req
	}
	return Fault{}, req
}

// route answers. An unclean path is a 404, as at the real vendors; ServeMux would redirect it.
func (v *vendor) route(x *exchange) {
	p := x.r.URL.Path
	if p != path.Clean(p) && p != path.Clean(p)+"/" {
		http.NotFound(x, x.r)
		return
	}
	v.mu.Lock()
	routes := v.routes
	v.mu.Unlock()
	routes.ServeHTTP(x, x.r)
}
