package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Figures of scene "spend", at one millionth of a dollar per token: the answer is limited to 1,000 tokens and really has 900.
const (
	answerTokens = 900
	capMicros    = 5500
	capParallel  = 20
)

// writeConfig writes the configuration that the demo's sidecar runs with, and the vendors' credential beside it.
func (s *stage) writeConfig() (string, error) {
	secret := filepath.Join(s.dir, "vendor-token")
	err := os.WriteFile(secret, []byte("vendor-token-of-the-demo\n"), 0o600)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("destinations:\n")
	for _, d := range []struct{ name, vendor, more string }{
		{"openai", "openai", ""},
		{"slack", "slack", ""},
		{"github", "github", ""},
		{"jira", "jira", ""},
		{"crm", "playground", "{window: 10s, min_requests: 100, failure_bps: 9000, consecutive_failures: 3, cooldown: 1s, max_cooldown: 1s, probes_per_second: 20, close_after: 2}"},
	} {
		breaker := d.more
		if breaker == "" {
			breaker = "{window: 10s, min_requests: 100, failure_bps: 9000, consecutive_failures: 100, cooldown: 30s, max_cooldown: 60s, probes_per_second: 20, close_after: 5}"
		}
		fmt.Fprintf(&b, `  - name: %s
    url: %s
    connector_profile: %s
    deadline: {total: 10s, per_attempt: 5s}
    breaker: %s
    limit: {requests: {capacity: 100, refill_tokens: 100, refill_interval: 1s}, max_concurrency: 50, tenant_share_bps: 10000}
    credential: {header: Authorization, prefix: "Bearer ", file: %q}
    allowed_networks: [127.0.0.0/8]
`, d.name, s.fleet.URL(d.vendor), d.vendor, breaker, secret)
	}
	fmt.Fprintf(&b, `
price_tables:
  - name: demo
    unknown_usd_micros_per_million: 100000000
    prices: [{model: demo-model, input_usd_micros_per_million: 1000000, output_usd_micros_per_million: 1000000}]
budgets:
  - name: demo-cap
    selector: {destinations: [openai]}
    spend_usd_micros: %d
    window: DAY
    keyed_by: [TENANT]
    hard: true
`, capMicros)
	path := filepath.Join(s.dir, "stoplog.yaml")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}
