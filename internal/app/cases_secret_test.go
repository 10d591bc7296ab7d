package app_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

// Wherever a credential stands, its value is in no file, no log line at level debug, no metric and no answer for operators
// (BerriAI/litellm#35678, DataDog/datadog-api-client-typescript#4168, jhaals/yopass#3906).
func TestNoSecretAnywhere(t *testing.T) {
	t.Setenv("STOPLOG_TEST_SECRET", "SECRET-injected-0")
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Set-Cookie", "sid=SECRET-cookie-1")
		w.Header().Set("Location", "https://elsewhere.example/x?token=SECRET-link-2")
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "broken") {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, `{"id":"1","client_secret":"SECRET-answer-3"}`)
	})
	var log syncBuffer
	s := start(t, []dest{{name: "generic", url: url, more: "credential: {header: X-Vendor-Key, env: STOPLOG_TEST_SECRET}"}, {name: "slack"}, {name: "openai", more: "unnamed_operations: DENY"}},
		withNeighbour(t, "other", "generic"), withOptions(func(o *app.Options) { o.LogOut = &log }))
	secret := []string{
		"Authorization", "Basic SECRET-basic-4", "Proxy-Authorization", "Basic SECRET-proxy-5", "X-Api-Key", "SECRET-key-6", "Cookie", "sid=SECRET-cookie-7",
		"X-Custom-Token", "SECRET-custom-8", "Stripe-Signature", "t=1,v1=SECRET-signature-9",
	}
	s.post("generic", "/items/SECRET-path-10?token=SECRET-query-11", `{"password":"SECRET-body-12"}`, append(secret, "Idempotency-Key", "SECRET-idem-13")...)
	s.do("GET", s.URL("generic")+"/bot12345:SECRET-path-14/getMe?api_key=SECRET-query-15", "", secret...)
	s.do("GET", s.URL("generic")+"/broken/SECRET-path-16", "", secret...)                                       // an error of the connection
	s.do("GET", strings.Replace(s.URL("generic"), "/generic", "/SECRET-1700f3a/x", 1), "", secret...)           // unknown
	s.post("openai", "/v1/brand-new/SECRET-1800f3a", `{"k":"SECRET-body-19"}`, secret...)                       // unclassified
	s.post("generic", "/items", `{"k":"SECRET-body-20","k":1}`, secret...)                                      // malformed
	s.post("generic", "/items?q=SECRET-query-21;x=1", `{}`, secret...)                                          // ambiguous
	s.do("GET", s.URL("generic")+"/x", "", append(secret, "Stoplog-Intent", "SECRET-malformed-22 \"")...)       // malformed header
	s.post("generic", "/items", `{"password":"other"}`, append(secret, "Idempotency-Key", "SECRET-idem-13")...) // conflict
	s.raise("fleet", stoplog.L2)
	s.post("generic", "/items/SECRET-path-23", `{"password":"SECRET-body-24"}`, secret...) // parked
	s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"SECRET-body-25"}`, "Authorization", "Bearer SECRET-slack-26")

	var seen strings.Builder
	seen.WriteString(log.String())
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		seen.WriteString(s.do("GET", s.AdminURL()+path, "").body)
	}
	op := s.operator()
	holds, err := op.Holds(t.Context())
	if err != nil || len(holds) != 2 {
		t.Fatalf("%d holds, %v; want 2", len(holds), err)
	}
	if c, err := op.Config(t.Context()); err != nil {
		t.Error(err)
	} else {
		seen.WriteString(c.YAML)
	}
	n := 0
	if err := op.Receipts(t.Context(), operator.Query{}, false, func(r *receipts.Receipt) error {
		b, err := r.AppendJSON(nil)
		seen.Write(b)
		n++
		return err
	}); err != nil || n < 12 {
		t.Errorf("read %d receipts, %v", n, err)
	}
	files := 0
	if err := filepath.WalkDir(s.DataDir(), func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), "SECRET") {
			i := strings.Index(string(b), "SECRET")
			t.Errorf("%s holds %.30q", p, b[i:])
		}
		files++
		return err
	}); err != nil || files < 4 {
		t.Fatalf("walked %d files: %v", files, err)
	}
	if text := seen.String(); strings.Contains(text, "SECRET-") {
		i := strings.Index(text, "SECRET-")
		t.Errorf("an operator sees %.40q", text[i:])
	}
	if !strings.Contains(log.String(), "level=") {
		t.Error("nothing was logged: the test proves nothing")
	}
}
