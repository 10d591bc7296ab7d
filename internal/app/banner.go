package app

import (
	"fmt"
	"io"
	"strings"
)

// sdkHint says what to set in the vendor's official client, by connector.
var sdkHint = map[string]string{
	"openai":     "baseURL: %s/v1          (or OPENAI_BASE_URL)",
	"anthropic":  "baseURL: %s             (or ANTHROPIC_BASE_URL)",
	"gemini":     "httpOptions.baseUrl: %s (or GOOGLE_GEMINI_BASE_URL)",
	"slack":      "slackApiUrl: %s/api/",
	"github":     "baseUrl: %s",
	"stripe":     "host and port of its own listener, protocol: http",
	"twilio":     "its own listener, or plain HTTP at %s",
	"sendgrid":   "setDefaultRequest('baseUrl', '%s/')",
	"jira":       "host: %s",
	"mcp":        "server URL: %s/mcp",
	"generic":    "base URL: %s",
	"playground": "no key, no network",
}

// Banner says where everything is and what to do first.
func (a *App) Banner(w io.Writer) {
	s := a.Snapshot()
	fmt.Fprintf(w, "Stoplog %s, single-node: limits, budgets and the ledger live in this process and in %s.\n", a.options.Version, a.boot.DataDir)
	if a.options.Observe {
		fmt.Fprint(w, "\n  *** OBSERVE: everything is judged and recorded, and NOTHING IS ENFORCED except which addresses may be dialled. ***\n")
	}
	fmt.Fprintf(w, "\nAdmin    %s  (health, metrics, problem pages)\nOperator stoplog level|holds|breaker|budget|receipts   (socket %s)\n\nDestinations\n", a.adminURL, a.boot.OperatorSocket)
	width := 0
	for _, d := range s.Destinations() {
		width = max(width, len(d.Name))
	}
	for _, d := range s.Destinations() {
		base := a.URL(d.Name)
		hint := sdkHint[d.Connector]
		if strings.Contains(hint, "%s") {
			hint = fmt.Sprintf(hint, base)
		}
		fmt.Fprintf(w, "  %-*s  %s\n", width, d.Name, base)
		if b := a.BoundURL(d.Name); b != "" && b != base {
			fmt.Fprintf(w, "  %-*s  %s  (no prefix)\n", width, "", b)
		}
		if hint != "" {
			fmt.Fprintf(w, "  %-*s  %s\n", width, "", hint)
		}
	}
	for _, addr := range a.skipped {
		fmt.Fprintf(w, "  (%s is taken: no listener without a prefix there)\n", addr)
	}
	if s.Destination("playground") != nil && a.fakes != nil {
		fmt.Fprintf(w, "\nTry it now, without a key or a network:\n  curl -i %s/messages -H 'Content-Type: application/json' -d '{\"to\":\"ada@example.com\",\"text\":\"hello\"}'\n  stoplog receipts tail\n", a.URL("playground"))
	}
}
