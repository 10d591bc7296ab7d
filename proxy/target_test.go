package proxy

import (
	"testing"

	"github.com/stoplog/stoplog"
)

// Path forms that a router cleans or splits differently from the destination (golang/go#50243), and query smuggling
// (golang/go#54663, CVE-2022-2880).
func TestParseTarget(t *testing.T) {
	for in, want := range map[string]stoplog.Reason{
		"/slack/api/chat.postMessage":            "",
		"/github/repos/o/r/git/ref/heads%2Fmain": "", // judged after matching: see encodedSeparator
		"/x/a%20b?q=%E2%82%AC&r=":                "",
		"/x?":                                    "",
		"/":                                      "",
		"/x/":                                    "",
		"/x?a=b+c&d=/e?f":                        "",
		"//api/chat.postMessage":                 stoplog.ReasonAmbiguousPath,
		"/slack//chat.postMessage":               stoplog.ReasonAmbiguousPath,
		"/api/./chat.postMessage":                stoplog.ReasonAmbiguousPath,
		"/api/x/../chat.postMessage":             stoplog.ReasonAmbiguousPath,
		"/api/..":                                stoplog.ReasonAmbiguousPath,
		"/api/%2e%2e/x":                          stoplog.ReasonAmbiguousPath,
		"/api/%63hat.postMessage":                stoplog.ReasonAmbiguousPath,
		"/api/chat%2":                            stoplog.ReasonAmbiguousPath,
		"/api/chat%zz":                           stoplog.ReasonAmbiguousPath,
		"/api/a%00b":                             stoplog.ReasonAmbiguousPath,
		"/api/a%5Cb":                             stoplog.ReasonAmbiguousPath,
		`/api/a\b`:                               stoplog.ReasonAmbiguousPath,
		"/api/ä":                                 stoplog.ReasonAmbiguousPath,
		"/api/chat.postMessage?channel=C_OK;channel=C_EVIL": stoplog.ReasonAmbiguousQuery,
		"/api/chat.postMessage?channel=C_OK&x=%zz":          stoplog.ReasonAmbiguousQuery,
		"/api/chat.postMessage?a=b#c":                       stoplog.ReasonAmbiguousQuery,
		"http://evil.example/x":                             stoplog.ReasonUnknownDestination,
		"*":                                                 stoplog.ReasonUnknownDestination,
		"/api/chat.postMessage?channel=C_OK;channel=C_EVIL&x=%": stoplog.ReasonAmbiguousQuery,
	} {
		_, err := parseTarget(in)
		var got stoplog.Reason
		if err != nil {
			got = stoplog.ReasonOf(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("/slack/api/chat.postMessage?x=1")
	f.Add("/a/%2e%2e/b")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTarget(s)
		if err != nil {
			return
		}
		again := got.path
		if got.mark {
			again += "?" + got.query
		}
		if again != s {
			t.Errorf("%q was accepted but not kept: %q", s, again)
		}
	})
}

func TestLocalHost(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:7070": true, "localhost:7070": true, "LOCALHOST": true, "[::1]:7070": true, "127.8.8.8": true,
		"evil.example": false, "evil.example:7070": false, "10.0.0.1:7070": false, "": false, "127.0.0.1.evil.example": false,
	} {
		if got := localHost(host, "127.0.0.1:7070"); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	if !localHost("10.1.2.3:7070", "10.1.2.3:7070") || !localHost("10.1.2.3:7070", "0.0.0.0:7070") {
		t.Error("the address that the listener is bound to is refused")
	}
}
