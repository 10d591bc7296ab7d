package spend

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/stoplog/stoplog"
)

// Price is what a model costs, in millionths of a US dollar per 1,000,000 tokens: $3 per million tokens is 3,000,000.
type Price struct {
	Model       string // as the request names it; a trailing * matches the rest, the longest match wins
	Destination string // "" = at any destination
	Input       int64
	Cached      int64 // input from the provider's cache; 0 = as Input
	Output      int64
	MaxOutput   int64 // most tokens that the model can write; the worst case of a call that names no limit. 0 = unknown
	Free        bool  // really costs nothing (a model of one's own): the other prices must be 0
}

// PriceTable is all known prices.
type PriceTable struct {
	Prices []Price
	// Ceiling is the price of a model that is not listed: it should be dearer than all that are. Without one, an unlisted
	// model is refused where a budget counts money.
	Ceiling Price
}

// Bounds of a believable price: a tenth of a cent to 5,000 dollars per million tokens. A price per token or per thousand,
// typed as one per million, falls outside.
const (
	leastPrice = 1_000
	mostPrice  = 5_000_000_000
)

func (t PriceTable) validate(needed bool) error {
	seen := make(map[[2]string]bool, len(t.Prices))
	for i, p := range t.Prices {
		at := fmt.Sprintf("prices[%d]", i)
		key := [2]string{p.Destination, p.Model}
		switch {
		case p.Model == "" || strings.Contains(strings.TrimSuffix(p.Model, "*"), "*"):
			return fmt.Errorf("%s.model: %q: want a model's name, * only at its end", at, p.Model)
		case seen[key]:
			return fmt.Errorf("%s.model: %q is listed twice", at, p.Model)
		}
		seen[key] = true
		err := p.validate(at)
		if err != nil {
			return err
		}
	}
	if c := t.Ceiling; !c.Free && c.Input == 0 && c.Output == 0 && c.Cached == 0 {
		if needed && len(t.Prices) == 0 {
			return fmt.Errorf("prices: a budget counts money, but there is neither a price nor a ceiling")
		}
		return nil
	}
	if t.Ceiling.Free {
		return fmt.Errorf("ceiling.free: an unknown model is never free")
	}
	return t.Ceiling.validate("ceiling")
}

func (p Price) validate(at string) error {
	fields := [...]struct {
		name  string
		value int64
		zero  bool
	}{{"input", p.Input, false}, {"output", p.Output, false}, {"cached", p.Cached, true}}
	for _, f := range fields {
		switch {
		case p.Free && f.value != 0:
			return fmt.Errorf("%s.%s: %d: a free model has no price", at, f.name, f.value)
		case p.Free || f.zero && f.value == 0:
		case f.value < leastPrice || f.value > mostPrice:
			return fmt.Errorf("%s.%s: %d: want micro-dollars per million tokens, %d to %d (free: true if it costs nothing)",
				at, f.name, f.value, int64(leastPrice), int64(mostPrice))
		}
	}
	if p.Cached > p.Input {
		return fmt.Errorf("%s.cached: %d: is more than input", at, p.Cached)
	}
	if p.MaxOutput < 0 {
		return fmt.Errorf("%s.max_output: %d: want 0 or more", at, p.MaxOutput)
	}
	return nil
}

// Find is the price of a model at a destination: the destination's own before the general one, the exact name before the
// longest pattern, the ceiling before nothing.
func (t PriceTable) Find(destination, model string) (Price, bool) {
	best, rank := Price{}, -1
	for _, p := range t.Prices {
		if p.Destination != "" && p.Destination != destination {
			continue
		}
		r := 2 * len(p.Model)
		prefix, pattern := strings.CutSuffix(p.Model, "*")
		switch {
		case p.Model == model && model != "":
			r += 1 << 20
		case !pattern || model == "" || !strings.HasPrefix(model, prefix):
			continue
		}
		if p.Destination != "" {
			r += 1 << 24
		}
		if r > rank {
			best, rank = p, r
		}
	}
	switch {
	case rank >= 0:
		return best, best.Free || best.Input > 0 && best.Output > 0
	default:
		return t.Ceiling, t.Ceiling.Input > 0 && t.Ceiling.Output > 0
	}
}

// Cost is what usage costs in micro-dollars, rounded up.
func (p Price) Cost(u stoplog.Usage) int64 {
	cachedPrice := p.Cached
	if cachedPrice == 0 {
		cachedPrice = p.Input
	}
	cached := min(max(u.Cached, 0), max(u.Input, 0))
	var c cost
	c.add(max(u.Input, 0)-cached, p.Input)
	c.add(cached, cachedPrice)
	c.add(max(u.Output, 0), p.Output)
	return c.micros()
}

// cost is a sum of tokens x price in 128 bits: a count from outside may be any number.
type cost struct{ hi, lo uint64 }

func (c *cost) add(tokens, price int64) {
	hi, lo := bits.Mul64(uint64(tokens), uint64(max(price, 0)))
	var carry uint64
	c.lo, carry = bits.Add64(c.lo, lo, 0)
	c.hi += hi + carry
}

func (c *cost) micros() int64 {
	const million, most = 1_000_000, 1<<63 - 1
	if c.hi >= million/2 { // the quotient would not fit
		return most
	}
	q, r := bits.Div64(c.hi, c.lo, million)
	if r > 0 {
		q++
	}
	return int64(min(q, most))
}
