package configs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
)

func TestDefaultBootstrap(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	want := &Bootstrap{
		Listeners:    []Listener{{Address: "127.0.0.1:7070", Actor: stoplog.Actor{Tenant: "local"}}},
		AdminAddress: "127.0.0.1:7071", DataDir: "/data/stoplog", OperatorSocket: "/data/stoplog/operator.sock", Fsync: true,
		MaxRequestHeadBytes: 65536, MaxConnections: 4096, HeaderTimeout: 10 * time.Second, LogLevel: "info",
	}
	if diff := cmp.Diff(want, DefaultBootstrap()); diff != "" {
		t.Error(diff)
	}
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("HOME", "/home/ada")
	if got := DefaultBootstrap().DataDir; got != "/home/ada/.local/share/stoplog" {
		t.Errorf("data folder %s", got)
	}
}

func TestBootstrapReference(t *testing.T) {
	b, err := LoadBootstrap("bootstrap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &Bootstrap{
		Listeners: []Listener{
			{Address: "127.0.0.1:7070", Actor: stoplog.Actor{Tenant: "acme", Org: "support", Agent: "support-bot"}, Function: "com"},
			{Address: "127.0.0.1:7080", Destination: "stripe", Actor: stoplog.Actor{Tenant: "local"}},
		},
		AdminAddress: "127.0.0.1:7071", DataDir: "/var/lib/stoplog", OperatorSocket: "/run/stoplog/operator.sock", Fsync: true,
		MaxRequestHeadBytes: 65536, MaxConnections: 4096, HeaderTimeout: 10 * time.Second, LogLevel: "info",
		ProblemBaseURL: "https://stoplog.example.com/problems",
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Error(diff)
	}
	err = b.Check(Default())
	if err != nil {
		t.Error(err)
	}
	b.Listeners[1].Destination = "strip"
	err = b.Check(Default())
	if err == nil || err.Error() != `listeners[1].destination: "strip" is no destination; did you mean "stripe"?` {
		t.Errorf("Check: %v", err)
	}
}

func TestBootstrapProblems(t *testing.T) {
	for text, want := range map[string]string{
		"colour: x":                                 `b.yaml:1:1 colour: unknown key; want one of:`,
		"adminAddress: x":                           `b.yaml:1:1 adminAddress: unknown key; did you mean "admin_address"?`,
		"listeners: [{address: here}]":              `b.yaml:1:23 listeners[0].address: "here" is no address to listen at`,
		"listeners: [{address: 'example.com:80'}]":  `b.yaml:1:23 listeners[0].address: "example.com:80" is no address`,
		"listeners: [{address: '127.0.0.1:70700'}]": `listeners[0].address: "127.0.0.1:70700" is no address`,
		"listeners: [{address: '127.0.0.1:1'}, {address: '127.0.0.1:1'}]":   `listeners[1].address: 127.0.0.1:1 is used by listeners[0].address already`,
		"listeners: [{address: '127.0.0.1:1'}]\nadmin_address: 127.0.0.1:1": `b.yaml:2:16 admin_address: 127.0.0.1:1 is used by listeners[0].address already`,
		"listeners: [{}]":                  `listeners[0].address: missing; add e.g. "address: 127.0.0.1:7070"`,
		"durability: SOMETIMES":            `"SOMETIMES" is not one of its values; want one of: FSYNC, NONE`,
		"emergency: {header_timeout: 1ms}": "emergency.header_timeout: must be greater than or equal to 0.1s",
		"problem_base_url: nowhere":        "problem_base_url: has the wrong form",
		"log: {level: info}":               `log.level: "info" is not one of its values; did you mean "INFO"?`,
		"":                                 "b.yaml: empty",
	} {
		_, err := ParseBootstrap("b.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := LoadBootstrap("no-such-file.yaml")
	if err == nil || err.Error() != "no-such-file.yaml: cannot be read: no such file or directory" {
		t.Errorf("missing file: %v", err)
	}
	free := "listeners: [{address: '127.0.0.1:0'}, {address: '127.0.0.1:0'}]"
	_, err = ParseBootstrap("b.yaml", []byte(free))
	if err != nil {
		t.Errorf("two listeners at any free port: %v", err)
	}
}
