package app_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Answers without a body pass with their heads as they are, and the connections to both sides go on.
func TestBodilessAnswers(t *testing.T) {
	var conns atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		switch r.Method + r.URL.Path {
		case "HEAD/items/1":
			w.Header().Set("Content-Length", "100")
		case "GET/items/2":
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(304)
		case "DELETE/items/3":
			w.WriteHeader(204)
		case "PUT/items/4":
			w.Header().Set("Content-Length", "0")
		default:
			io.WriteString(w, "ok")
		}
	})
	s := start(t, []dest{{name: "generic", url: url}})
	transport := &http.Transport{Dial: func(n, a string) (net.Conn, error) { conns.Add(1); return net.Dial(n, a) }}
	c := &http.Client{Transport: transport}
	for range 3 {
		for _, q := range []struct {
			method, path string
			status       int
			length       int64
		}{
			{"HEAD", "/items/1", 200, 100}, {"GET", "/items/2", 304, 0}, {"DELETE", "/items/3", 204, 0}, {"PUT", "/items/4", 200, 0}, {"GET", "/items/5", 200, 2},
		} {
			var body io.Reader
			if q.method == "PUT" {
				body = strings.NewReader(`{"a":1}`)
			}
			req, _ := http.NewRequest(q.method, s.URL("generic")+q.path, body)
			req.Header.Set("Content-Type", "application/json")
			resp, err := c.Do(req)
			if err != nil {
				t.Fatalf("%s %s: %v", q.method, q.path, err)
			}
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != q.status || max(resp.ContentLength, 0) != q.length {
				t.Errorf("%s %s: %d, length %d, %v; want %d, %d", q.method, q.path, resp.StatusCode, resp.ContentLength, err, q.status, q.length)
			}
			if q.status == 204 && resp.Header.Get("Content-Length") != "" {
				t.Errorf("204 with a length: %v", resp.Header)
			}
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d client connections for 15 requests, want 1", n)
	}
}
