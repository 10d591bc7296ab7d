package configs

import (
	"github.com/stoplog/stoplog/budget/spend"
	"github.com/stoplog/stoplog/configs/configv1"
)

func spending(b *configv1.Bundle) spend.Config {
	var c spend.Config
	for _, x := range b.GetBudgets() {
		c.Budgets = append(c.Budgets, budget(x))
	}
	for _, t := range b.GetPriceTables() {
		joinPrices(&c, t)
	}
	return c
}

var (
	windows = map[configv1.Budget_Window]spend.Window{
		configv1.Budget_HOUR: spend.Hour, configv1.Budget_DAY: spend.Day, configv1.Budget_MONTH: spend.Month,
	}
	dimensions = map[configv1.Budget_Key]spend.Dimension{
		configv1.Budget_TENANT: spend.PerTenant, configv1.Budget_AGENT: spend.PerAgent, configv1.Budget_FUNCTION: spend.PerFunction,
		configv1.Budget_DESTINATION: spend.PerDestination,
	}
)

func budget(b *configv1.Budget) spend.Budget {
	out := spend.Budget{
		Name: b.GetName(), Window: windows[b.GetWindow()], Zone: b.GetTimeZone(), Hard: b.GetHard(), Holds: int64(b.GetMaxHolds()),
		Selects: selector(b.GetSelector()).Matches,
	}
	switch k := b.GetKind().(type) {
	case *configv1.Budget_SpendUsdMicros:
		out.Unit, out.Limit = spend.USDMicro, signed(k.SpendUsdMicros)
	case *configv1.Budget_ModelTokens:
		out.Unit, out.Limit = spend.Token, signed(k.ModelTokens)
	case *configv1.Budget_Messages:
		out.Unit, out.Limit = spend.Message, signed(k.Messages)
	}
	for _, k := range b.GetKeyedBy() {
		if k != configv1.Budget_FLEET {
			out.Per = append(out.Per, dimensions[k])
		}
	}
	return out
}

// joinPrices adds a table: its models, and the stricter of what holds for all.
func joinPrices(c *spend.Config, t *configv1.PriceTable) {
	ceiling := max(c.Prices.Ceiling.Input, signed(t.GetUnknownUsdMicrosPerMillion()))
	c.Prices.Ceiling = spend.Price{Input: ceiling, Output: ceiling}
	c.MaxOutput = max(c.MaxOutput, int64(t.GetAssumedOutputTokens()))
	for _, x := range t.GetPrices() {
		c.Prices.Prices = append(c.Prices.Prices, spend.Price{
			Model: x.GetModel(), Input: signed(x.GetInputUsdMicrosPerMillion()), Output: signed(x.GetOutputUsdMicrosPerMillion()),
			Cached: signed(x.GetCachedInputUsdMicrosPerMillion()), Free: x.GetFree(),
		})
	}
}

// signed is u as an int64; what does not fit is as good as the largest.
func signed(u uint64) int64 { return int64(min(u, 1<<63-1)) }
