package configs

import (
	"strings"
	"testing"
)

func TestSuggestionLoads(t *testing.T) {
	text := Suggest([]Refused{
		{Host: "API.notion.com", Method: "GET", Path: "/v1/pages/{id}", Count: 3},
		{Host: "api.notion.com", Method: "POST", Path: "/v1/pages", ContentType: "application/json; charset=utf-8", Count: 2},
		{Host: "api.notion.com", Method: "POST", Path: "/v1/pages", ContentType: "multipart/form-data; boundary=x"},
		{Host: "www.notion.com", Method: "GET", Path: "/", Count: 1},
		{Host: "127.0.0.1:9000", Method: "GET", Path: "/x"},
		{Destination: "slack", Method: "POST", Path: "/api/new.method", ContentType: "application/x-www-form-urlencoded", Count: 9},
	})
	s, err := Parse("suggestion.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for host, want := range map[string]string{
		"api.notion.com": "notion", "www.notion.com": "www-notion-com", "127.0.0.1:9000": "127.0.0.1",
	} {
		d := s.DestinationOf(host)
		if d == nil || d.Name != want {
			t.Errorf("%s: %+v, want %s\n%s", host, d, want, text)
		}
	}
	for _, want := range []string{
		"# 6 refused\n  - name: notion\n",
		"allowed_networks: [127.0.0.1/32]",
		"action: post.v1.pages\n        methods: [POST]\n        path: /v1/pages\n        class: WRITE\n        bodies: [JSON, MULTIPART]",
		"action: get.v1.pages.id\n        methods: [GET]\n        path: /v1/pages/{id}\n        class: READ\n",
		"# Replaces the shipped profile of this name",
		"- name: slack\n    operations:\n      - action: post.api.new.method",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What was refused came from an agent: it must not be able to write YAML.
func TestSuggestionTrustsNothing(t *testing.T) {
	evil := []Refused{
		{Host: "a.com\n  evil: true", Method: "GET", Path: "/"},
		{Host: "a.com", Method: "GET\nevil: true", Path: "/"},
		{Host: "b.com", Method: "GET", Path: "/x\nevil: true"},
		{Host: "c.com", Method: "GET", Path: "/: # {evil: true}"},
		{Host: "d.com", Method: "POST", Path: "/x", ContentType: "evil: true\nevil: true"},
		{Destination: "x\nevil: true", Method: "GET", Path: "/"},
	}
	text := Suggest(evil)
	if strings.Contains(text, "\nevil") || strings.Contains(text, "  evil") {
		t.Errorf("an agent wrote:\n%s", text)
	}
	_, err := Parse("x", []byte(text))
	if err != nil {
		for _, p := range Problems(err) {
			if strings.Contains(p.Problem, "unknown key") || strings.Contains(p.Problem, "not YAML") {
				t.Errorf("%v in\n%s", p, text)
			}
		}
	}
}

func TestNothingToSuggest(t *testing.T) {
	if got := Suggest(nil); got != "# Nothing was refused as unknown.\n" {
		t.Errorf("%q", got)
	}
}
