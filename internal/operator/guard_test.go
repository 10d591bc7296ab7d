package operator_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoplog/stoplog/internal/operator/operatortest"
)

// every call that changes something or shows what is the operator's, with a body that would be accepted.
var guarded = []struct{ method, path, body string }{
	{"POST", "/v1/levels", `{"action":"raise","scope":"fleet","level":"L1"}`},
	{"POST", "/v1/levels", `{"action":"lower","scope":"fleet","level":"L0","reason":"x","seen":1}`},
	{"POST", "/v1/breakers/slack:force", `{"to":"half_open","reason":"x"}`},
	{"POST", "/v1/holds:release", `{"selection":{"all":true}}`},
	{"POST", "/v1/holds/op_1:release", `{}`},
	{"POST", "/v1/holds/op_1:withdraw", `{}`},
	{"POST", "/v1/config:reload", `{}`},
	{"GET", "/v1/budgets", ""},
	{"GET", "/v1/holds", ""},
	{"GET", "/v1/operations", ""},
	{"GET", "/v1/operations/op_1", ""},
	{"GET", "/v1/receipts", ""},
	{"GET", "/v1/receipts/0", ""},
	{"GET", "/v1/config", ""},
	{"GET", "/v1/destinations", ""},
}

// Whoever knows only the port can lower, release, change and read nothing, whatever it sends along.
func TestPortAloneChangesNothing(t *testing.T) {
	for _, x := range []struct {
		name   string
		header []string
	}{
		{"nothing", nil},
		{"wrong token", []string{"Authorization", "Bearer guess"}},
		{"empty token", []string{"Authorization", "Bearer "}},
		{"right token in a wrong scheme", []string{"Authorization", "Basic " + operatortest.Token}},
		{"a web page", []string{"Authorization", "Bearer " + operatortest.Token, "Origin", "http://127.0.0.1:7071"}},
		{"a rebound name", []string{"Authorization", "Bearer " + operatortest.Token, "Host", "evil.example:7071"}},
		{"headers that claim a peer", []string{"X-Forwarded-For", "127.0.0.1", "Stoplog-Actor", "user:root", "X-HTTP-Method-Override", "POST"}},
	} {
		f := operatortest.New()
		s := admin(t, f)
		for _, c := range guarded {
			for _, method := range []string{c.method, "PUT", "DELETE", "PATCH"} {
				status, body := send(t, method, s.URL+c.path, c.body, x.header...)
				if status != http.StatusForbidden {
					t.Errorf("%s: %s %s: %d %s", x.name, method, c.path, status, body)
				}
			}
		}
		if len(f.Calls) > 0 || len(f.Written) > 0 {
			t.Errorf("%s: changed %v", x.name, f.Calls)
		}
	}
}

// A sidecar without a token opens its admin port to nobody, also not to an empty token.
func TestNoTokenOpensNothing(t *testing.T) {
	f := operatortest.New()
	d := f.Deps()
	d.Token = ""
	s := adminOf(t, d)
	for _, token := range []string{"", operatortest.Token} {
		status, body := send(t, "GET", s.URL+"/v1/holds", "", "Authorization", "Bearer "+token)
		if status != http.StatusForbidden {
			t.Errorf("token %q: %d %s", token, status, body)
		}
	}
}

func TestTokenOpens(t *testing.T) {
	f := operatortest.New()
	s := admin(t, f)
	bearer := "Bearer " + operatortest.Token
	for _, host := range []string{"", "localhost:7071", "[::1]:7071", "192.0.2.7"} {
		h := []string{"Authorization", bearer}
		if host != "" {
			h = append(h, "Host", host)
		}
		status, body := send(t, "GET", s.URL+"/v1/holds", "", h...)
		if status != http.StatusOK || !strings.Contains(body, "op_1") {
			t.Errorf("host %q: %d %s", host, status, body)
		}
	}
	status, body := send(t, "POST", s.URL+"/v1/levels", `{"action":"raise","scope":"fleet","level":"L2"}`, "Authorization", bearer)
	if status != http.StatusOK || f.Written[0].Note["actor"] != "token:operator" {
		t.Errorf("%d %s %v", status, body, f.Written)
	}
}

// What a browser may send across origins without asking is not enough for a change, also with the right token.
func TestChangesNeedJSON(t *testing.T) {
	f := operatortest.New()
	s := admin(t, f)
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		status, body := send(t, "POST", s.URL+"/v1/levels", `{"action":"raise","scope":"fleet","level":"L1"}`,
			"Authorization", "Bearer "+operatortest.Token, "Content-Type", media)
		if status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d %s", media, status, body)
		}
	}
	if len(f.Calls) > 0 {
		t.Errorf("changed %v", f.Calls)
	}
}

// What is open shows no names and no words of people.
func TestOpenCalls(t *testing.T) {
	f := operatortest.New()
	s := admin(t, f)
	_, body := send(t, "POST", s.URL+"/v1/levels", `{"action":"raise","scope":"fleet","level":"L1","reason":"the secret plan"}`,
		"Authorization", "Bearer "+operatortest.Token)
	if !strings.Contains(body, `"level":"L1"`) {
		t.Fatal(body)
	}
	for path, want := range map[string]string{
		"/v1/levels":              `{"items":[{"scope":"fleet","level":"L1"}]}`,
		"/v1/version":             `{"version":"test"}`,
		"/v1/breakers":            `"state":"open"`,
		"/problems/write_freeze":  "**What to do.**",
		"/problems/no_such_thing": `"reason":"not_found"`,
	} {
		_, body := send(t, "GET", s.URL+path, "")
		if !strings.Contains(body, want) || strings.Contains(body, "secret plan") {
			t.Errorf("%s: %s", path, body)
		}
	}
	_, page := send(t, "GET", s.URL+"/problems/write_freeze", "", "Accept", "text/html,*/*")
	if !strings.Contains(page, "<h1>") || !strings.Contains(page, "write_freeze") {
		t.Error(page)
	}
	status, _ := send(t, "GET", s.URL+"/v1/nothing", "", "Authorization", "Bearer "+operatortest.Token)
	if status != http.StatusNotFound {
		t.Errorf("unknown call: %d", status)
	}
}
