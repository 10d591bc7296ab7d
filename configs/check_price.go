package configs

import (
	"fmt"
	"strings"

	"github.com/stoplog/stoplog/configs/configv1"
)

// Prices outside these bounds are mistakes of unit: published ones lie between about 0.02 and 600 US dollars per million
// tokens. A price typed per token or in dollars makes a budget a thousand or a million times too wide
// (BerriAI/litellm#20615); one typed per thousand too narrow.
const (
	leastPrice       = 5_000         // 0.005 US dollars
	leastCachedPrice = 1_000         // 0.001
	mostPrice        = 2_000_000_000 // 2,000
)

func (c *checker) checkPrices() {
	first := map[string]string{}
	for _, x := range collectItems(c, "price_tables", (*configv1.Bundle).GetPriceTables) {
		plausible(x, "unknown_usd_micros_per_million", x.v.GetUnknownUsdMicrosPerMillion(), leastPrice)
		for i, p := range x.v.GetPrices() {
			field := fmt.Sprintf("prices[%d]", i)
			m := p.GetModel()
			if where, twice := first[m]; twice {
				x.tell(field+".model", fmt.Sprintf("%q has a price already%s", m, where), "remove one of them")
			}
			first[m] = item[*configv1.PriceTable]{x.d, x.path + "." + field, x.v}.where(x.d)
			if star := strings.IndexByte(m, '*'); star >= 0 && star != len(m)-1 {
				x.tell(field+".model", `"*" may only stand at the end`, "")
			}
			in, out, cached := p.GetInputUsdMicrosPerMillion(), p.GetOutputUsdMicrosPerMillion(), p.GetCachedInputUsdMicrosPerMillion()
			if p.GetFree() && in+out+cached > 0 {
				x.tell(field+".free", "the model has a price", "remove free, or the prices")
			}
			plausible(x, field+".input_usd_micros_per_million", in, leastPrice)
			plausible(x, field+".output_usd_micros_per_million", out, leastPrice)
			plausible(x, field+".cached_input_usd_micros_per_million", cached, leastCachedPrice)
			if cached > in {
				x.tell(field+".cached_input_usd_micros_per_million", "dearer than input that is not cached", "at most input_usd_micros_per_million")
			}
		}
	}
}

func plausible(x item[*configv1.PriceTable], field string, price uint64, least uint64) {
	if price == 0 || price >= least && price <= mostPrice {
		return // zero is the rules' business
	}
	x.tell(field, fmt.Sprintf("%s US dollars per million tokens is not plausible", dollars(price)),
		"the unit is millionths of a US dollar per million tokens: 2.50 US dollars are 2500000")
}

// dollars prints millionths of a dollar without rounding.
func dollars(micros uint64) string {
	s := fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
