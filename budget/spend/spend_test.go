package spend_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/budget/spend"
)

const (
	dollar  = 1_000_000
	million = 1_000_000
)

var prices = spend.PriceTable{
	Prices: []spend.Price{
		{Model: "small", Input: 1 * dollar, Cached: dollar / 10, Output: 2 * dollar, MaxOutput: 16_000},
		{Model: "family-*", Input: 3 * dollar, Output: 6 * dollar},
		{Model: "family-large-*", Input: 5 * dollar, Output: 20 * dollar},
		{Model: "small", Destination: "dear", Input: 2 * dollar, Output: 4 * dollar},
		{Model: "own", Free: true},
	},
	Ceiling: spend.Price{Input: 100 * dollar, Output: 200 * dollar},
}

func now() time.Time { return time.Date(2026, 11, 30, 21, 15, 0, 0, time.UTC) }

func stage(t *testing.T, c spend.Config) *spend.Stage {
	t.Helper()
	s, err := spend.New(c, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func model(name string, input, output int64) admission.Case {
	return admission.Case{Effect: &stoplog.Effect{
		Class: stoplog.ClassModel, Destination: "openai", Function: "out", Actor: stoplog.Actor{Tenant: "acme", Agent: "bot/1"},
		Model: stoplog.ModelCall{Name: name, InputTokens: input, MaxOutputTokens: output},
	}}
}

func charges(t *testing.T, c spend.Config, x admission.Case) []admission.SpendCharge {
	t.Helper()
	o, err := stage(t, c).Judge(t.Context(), &x)
	if err != nil || o.Decision.Verdict != stoplog.Allow {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	return o.Charges.Spend
}

func TestStage(t *testing.T) {
	c := spend.Config{Prices: prices, Budgets: []spend.Budget{
		{Name: "money", Unit: spend.USDMicro, Limit: 5 * dollar, Window: spend.Hour, Per: []spend.Dimension{spend.PerTenant}},
	}}
	admissiontest.Stage(t, func(t *testing.T) admission.Stage { return stage(t, c) }, model("small", 10, 10), model("", 0, 0))
	c.Prices.Ceiling = spend.Price{}
	admissiontest.Stage(t, func(t *testing.T) admission.Stage { return stage(t, c) }, model("unknown", 10, 10))
}

func TestCharges(t *testing.T) {
	c := spend.Config{Prices: prices, MaxOutput: 1000, Budgets: []spend.Budget{
		{Name: "fleet", Unit: spend.USDMicro, Limit: 50 * dollar, Window: spend.Day},
		{
			Name: "money", Unit: spend.USDMicro, Limit: 5 * dollar, Window: spend.Hour, Holds: 8, Hold: time.Minute,
			Per: []spend.Dimension{spend.PerTenant, spend.PerAgent},
		},
		{Name: "tokens", Unit: spend.Token, Limit: 100_000, Window: spend.Total, Per: []spend.Dimension{spend.PerFunction}},
		{Name: "elsewhere", Unit: spend.Token, Limit: 1, Window: spend.Hour, Destinations: []string{"other"}},
		{Name: "others", Unit: spend.Token, Limit: 1, Window: spend.Hour, Tenants: []string{"other"}},
		{Name: "work", Unit: spend.Token, Limit: 1, Window: spend.Hour, Functions: []string{"fb"}},
		{Name: "selected", Unit: spend.Token, Limit: 1, Window: spend.Hour, Selects: func(*stoplog.Effect) bool { return false }},
		{Name: "messages", Unit: spend.Message, Limit: 10, Window: spend.Day, Per: []spend.Dimension{spend.PerDestination}},
	}}
	// 1,000 input tokens and a tenth, 500 output tokens.
	const money, tokens = 1_100*1 + 500*2, 1_100 + 500
	day := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	want := []admission.SpendCharge{
		{Budget: "fleet", Key: "fleet/2026-11-30", Unit: "usd_micro", Limit: 50 * dollar, Estimate: money, Hold: 15 * time.Minute, Ends: day},
		{
			Budget: "money", Key: "money/tenant/acme/agent/bot%2F1/2026-11-30T21Z", Unit: "usd_micro", Limit: 5 * dollar, Estimate: money,
			MaxHolds: 8, Hold: time.Minute, Ends: time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC),
		},
		{Budget: "tokens", Key: "tokens/function/out/total", Unit: "token", Limit: 100_000, Estimate: tokens, Hold: 15 * time.Minute},
	}
	got := charges(t, c, model("small", 1000, 500))
	ignore := cmpopts.IgnoreFields(admission.SpendCharge{}, "Actual")
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Error(diff)
	}
	usage := stoplog.Usage{Input: 900, Cached: 400, Output: 100, Known: true}
	for i, want := range []int64{500 + 40 + 200, 500 + 40 + 200, 1000} {
		if used := got[i].Actual(usage); used != want {
			t.Errorf("%s: actual %d, want %d", got[i].Budget, used, want)
		}
	}

	message := admission.Case{Effect: &stoplog.Effect{Class: stoplog.ClassMessage, Destination: "slack", Recipients: []string{"a", "b", "c"}}}
	want = []admission.SpendCharge{
		{Budget: "messages", Key: "messages/destination/slack/2026-11-30", Unit: "message", Limit: 10, Estimate: 3, Hold: 15 * time.Minute, Ends: day},
	}
	if diff := cmp.Diff(want, charges(t, c, message)); diff != "" {
		t.Error(diff)
	}
}

func TestEstimates(t *testing.T) {
	for _, c := range []struct {
		name          string
		model         string
		input, output int64
		hard          bool
		want          int64
	}{
		{"what is asked for", "small", 0, 500, false, 500 * 2},
		{"nothing asked for", "small", 0, 0, false, 1000 * 2},
		{"more than is usual", "small", 0, 9000, false, 1000 * 2},
		{"hard: what is asked for", "small", 0, 9000, true, 9000 * 2},
		{"hard: nothing asked for", "small", 0, 0, true, 16_000 * 2},
		{"hard: nothing known", "family-x", 0, 0, true, 1000 * 6},
		{"the longest pattern", "family-large-1", 0, 100, false, 100 * 20},
		{"free", "own", 1000, 1000, false, 0},
		{"unknown", "new-model-x", 10, 100, false, 11*100 + 100*200},
		{"no name", "", 0, 100, false, 100 * 200},
		{"rounded up", "small", 1, 0, false, 2*1 + 1000*2},
		{"negative", "small", -5, -5, false, 1000 * 2},
		{"absurd", "family-x", math.MaxInt64, math.MaxInt64, true, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := spend.Config{Prices: prices, MaxOutput: 1000, Budgets: []spend.Budget{
				{Name: "money", Unit: spend.USDMicro, Window: spend.Hour, Hard: c.hard},
			}}
			if got := charges(t, conf, model(c.model, c.input, c.output))[0].Estimate; got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
	dear := model("small", 0, 100)
	dear.Effect.Destination = "dear"
	conf := spend.Config{Prices: prices, Budgets: []spend.Budget{{Name: "money", Unit: spend.USDMicro, Window: spend.Hour}}}
	if got := charges(t, conf, dear)[0].Estimate; got != 400 {
		t.Errorf("price at one destination: %d, want 400", got)
	}
}

// An unknown price was counted as zero, or as that of a guessed tier: BerriAI/litellm#36561, #24949, #30715,
// headroomlabs-ai/headroom#3732.
func TestUnknownPriceIsNeverZero(t *testing.T) {
	c := spend.Config{Prices: prices, Budgets: []spend.Budget{{Name: "money", Unit: spend.USDMicro, Limit: dollar, Window: spend.Hour}}}
	c.Prices.Ceiling = spend.Price{}
	x := model("new-model-x", 10, 10)
	o, err := stage(t, c).Judge(t.Context(), &x)
	if err != nil || o.Decision.Verdict != stoplog.Deny || o.Decision.Reason != stoplog.ReasonPriceUnknown || o.Decision.Rule != "budgets/money" {
		t.Errorf("no price and no ceiling: %+v, %v", o.Decision, err)
	}
	c.Budgets[0].Unit = spend.Token
	charges(t, c, x) // tokens need no price

	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "model")
		p, ok := prices.Find(rapid.SampledFrom([]string{"", "openai", "dear"}).Draw(t, "destination"), name)
		if !ok || name != "own" && p.Cost(stoplog.Usage{Output: 1}) < 1 {
			t.Fatalf("%q costs nothing: %+v", name, p)
		}
	})
}

func TestCost(t *testing.T) {
	p := spend.Price{Input: 3 * dollar, Output: 15 * dollar}
	for _, c := range []struct {
		u    stoplog.Usage
		want int64
	}{
		{stoplog.Usage{}, 0},
		{stoplog.Usage{Input: million}, 3 * dollar},
		{stoplog.Usage{Input: million, Cached: million}, 3 * dollar}, // no price for cached ones: as the others
		{stoplog.Usage{Output: 7}, 105},
		{stoplog.Usage{Input: 10, Cached: 20}, 30}, // more cached than read
		{stoplog.Usage{Input: -1, Output: -1, Cached: -1}, 0},
		{stoplog.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, math.MaxInt64},
	} {
		if got := p.Cost(c.u); got != c.want {
			t.Errorf("%+v costs %d, want %d", c.u, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	good := func() spend.Config {
		return spend.Config{Prices: prices, Budgets: []spend.Budget{{Name: "b", Unit: spend.USDMicro, Limit: 1, Window: spend.Hour}}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	price := func(p spend.Price) func(*spend.Config) {
		return func(c *spend.Config) { c.Prices.Prices = []spend.Price{p} }
	}
	for _, c := range []struct {
		want  string
		spoil func(*spend.Config)
	}{
		{"budgets[0].name", func(c *spend.Config) { c.Budgets[0].Name = "a/b" }},
		{"budgets[1].name", func(c *spend.Config) { c.Budgets = append(c.Budgets, c.Budgets[0]) }},
		{"budgets[0].unit", func(c *spend.Config) { c.Budgets[0].Unit = "" }},
		{"budgets[0].limit", func(c *spend.Config) { c.Budgets[0].Limit = -1 }},
		{"budgets[0].holds", func(c *spend.Config) { c.Budgets[0].Holds = -1 }},
		{"budgets[0].hold", func(c *spend.Config) { c.Budgets[0].Hold = -1 }},
		{"budgets[0].window", func(c *spend.Config) { c.Budgets[0].Window = "" }},
		{"budgets[0].per[0]", func(c *spend.Config) { c.Budgets[0].Per = []spend.Dimension{"moon"} }},
		{"budgets[0].zone", func(c *spend.Config) { c.Budgets[0].Zone = "Mars/Olympus" }},
		{"budgets[0].zone", func(c *spend.Config) { c.Budgets[0].Zone = "Local" }},
		{"max_output", func(c *spend.Config) { c.MaxOutput = -1 }},
		{"prices[0].model", price(spend.Price{Input: dollar, Output: dollar})},
		{"prices[0].model", price(spend.Price{Model: "a*b", Input: dollar, Output: dollar})},
		{"prices[1].model", func(c *spend.Config) {
			c.Prices.Prices = []spend.Price{{Model: "a", Input: dollar, Output: dollar}, {Model: "a", Input: dollar, Output: dollar}}
		}},
		{"prices[0].input", price(spend.Price{Model: "a", Output: dollar})},                                     // present but zero
		{"prices[0].input", price(spend.Price{Model: "a", Input: 3, Output: dollar})},                           // per token
		{"prices[0].output", price(spend.Price{Model: "a", Input: dollar, Output: 15 * dollar * million})},      // times a million
		{"prices[0].output", price(spend.Price{Model: "a", Input: dollar, Output: -1})},                         //
		{"prices[0].cached", price(spend.Price{Model: "a", Input: dollar, Output: dollar, Cached: 2 * dollar})}, //
		{"prices[0].input", price(spend.Price{Model: "a", Input: dollar, Free: true})},                          //
		{"prices[0].max_output", price(spend.Price{Model: "a", Input: dollar, Output: dollar, MaxOutput: -1})},  //
		{"ceiling.output", func(c *spend.Config) { c.Prices.Ceiling = spend.Price{Input: dollar} }},             //
		{"ceiling.free", func(c *spend.Config) { c.Prices.Ceiling = spend.Price{Free: true} }},                  //
		{"prices", func(c *spend.Config) { c.Prices = spend.PriceTable{} }},                                     // money without prices
	} {
		x := good()
		c.spoil(&x)
		err := x.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), c.want+":") {
			t.Errorf("got %v, want an error at %s", err, c.want)
		}
		if _, err2 := spend.New(x, nil); err2 == nil {
			t.Errorf("New takes what Validate refuses: %v", err)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	s, err := spend.New(spend.Config{Prices: prices, Budgets: []spend.Budget{
		{Name: "money", Unit: spend.USDMicro, Limit: dollar, Window: spend.Hour, Per: []spend.Dimension{spend.PerTenant}},
	}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := model("small", 1000, 500)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Judge(b.Context(), &c)
	}
}
