package configs

import (
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog/admission"
)

func TestDefault(t *testing.T) {
	s := Default()
	urls := map[string]string{
		"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com",
		"gemini": "https://generativelanguage.googleapis.com", "slack": "https://slack.com", "github": "https://api.github.com",
		"stripe": "https://api.stripe.com", "twilio": "https://api.twilio.com", "sendgrid": "https://api.sendgrid.com",
	}
	models := map[string]bool{"openai": true, "anthropic": true, "gemini": true}
	if len(s.Destinations()) != len(urls) {
		t.Errorf("%d destinations, want %d", len(s.Destinations()), len(urls))
	}
	for name, url := range urls {
		d := s.Destination(name)
		if d == nil || d.URL.String() != url {
			t.Errorf("%s: %+v", name, d)
			continue
		}
		if d.Profile == nil || d.Connector != name {
			t.Errorf("%s: no profile", name)
		}
		wantDeadline := Deadline{Total: 30 * time.Second, PerAttempt: 10 * time.Second, Idle: 30 * time.Second}
		if models[name] {
			wantDeadline = Deadline{Total: 10 * time.Minute, PerAttempt: 5 * time.Minute, Idle: 2 * time.Minute}
		}
		if d.Deadline != wantDeadline {
			t.Errorf("%s: deadline %+v", name, d.Deadline)
		}
		wantRetry := Retry{Attempts: 2, Base: 200 * time.Millisecond, Max: 1200 * time.Millisecond, MinUseful: 250 * time.Millisecond}
		if d.Retry != wantRetry {
			t.Errorf("%s: retry %+v", name, d.Retry)
		}
		wantBreaker := admission.Breaker{
			Window: 10 * time.Second, MinRequests: 20, FailureBPS: 5000, Consecutive: 12, Cooldown: 30 * time.Second,
			MaxCooldown: 10 * time.Minute, ProbeSpacing: 52632 * time.Microsecond, CloseAfter: 20, RampDouble: 3 * time.Second,
		}
		if d.Breaker != wantBreaker {
			t.Errorf("%s: breaker %+v", name, d.Breaker)
		}
		l := d.Limit
		if l.Rate < 1 || l.Burst < 1 || l.Seats < 1 || l.TenantSeats < 1 || l.RetryRate <= 0 || l.RetryBurst < 1 {
			t.Errorf("%s: limit %+v", name, l)
		}
		if models[name] != (l.TokenRate > 0) {
			t.Errorf("%s: token rate %v", name, l.TokenRate)
		}
		if len(d.AllowedNetworks) != 0 || d.Credential != nil {
			t.Errorf("%s: networks %v, credential %v", name, d.AllowedNetworks, d.Credential)
		}
	}
}

func TestDefaultSpend(t *testing.T) {
	c := Default().Spend()
	err := c.Validate()
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int64{ // input, in millionths of a US dollar per million tokens
		"gpt-4o-mini": 150_000, "gpt-4o-mini-2024-07-18": 150_000, "gpt-4.1": 2_000_000, "o3": 2_000_000,
		"claude-haiku-4-5-20251001": 1_000_000, "claude-opus-4-5": 5_000_000, "gemini-2.5-flash": 300_000,
		"a-model-of-tomorrow": 100_000_000, "gpt-4o-audio-preview": 100_000_000, "": 100_000_000,
	} {
		p, ok := c.Prices.Find("openai", model)
		if !ok || p.Input != want {
			t.Errorf("%q: %+v, want %d", model, p, want)
		}
	}
}

func TestPlayground(t *testing.T) {
	s, err := DefaultWithPlayground("http://127.0.0.1:41234")
	if err != nil {
		t.Fatal(err)
	}
	d := s.Destination("playground")
	if d == nil || d.URL.Host != "127.0.0.1:41234" || len(d.AllowedNetworks) != 1 || s.Destination("openai") == nil {
		t.Errorf("playground %+v", d)
	}
	p, ok := s.Spend().Prices.Find("playground", "playground")
	if !ok || !p.Free {
		t.Errorf("the playground's model costs %+v", p)
	}
	if Default().Destination("playground") != nil {
		t.Error("the default changed")
	}
	_, err = DefaultWithPlayground("http://192.0.2.1:80/a b")
	if err == nil {
		t.Error("a bad address was taken")
	}
}

func TestShippedTexts(t *testing.T) {
	for name, text := range map[string]string{"default": DefaultYAML(), "reference": ReferenceYAML()} {
		_, err := Parse(name, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, ok := ShippedProfile("slack")
	if !ok || !strings.Contains(text, "name: slack") {
		t.Errorf("the shipped profile slack: %v %.80q", ok, text)
	}
	_, ok = ShippedProfile("nobody's")
	if ok {
		t.Error("a profile that nobody ships")
	}
}
