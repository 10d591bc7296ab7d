package connector

import (
	"math"
	"strings"

	"github.com/stoplog/stoplog"
)

// exponents are the currencies whose minor unit is not a hundredth, as payment APIs count them (Stripe takes ISK and UGX in
// hundredths although ISO 4217 gives them none).
var exponents = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "JPY": 0, "KMF": 0, "KRW": 0, "MGA": 0, "PYG": 0, "RWF": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3,
}

// noCurrency is ISO 4217's code for an amount whose currency is not said.
const noCurrency = "XXX"

// read gives the amount in micro-units. No value is no amount; a value that is not a plain number of zero or more is refused.
func (a *amountSource) read(in *input) (stoplog.Money, error) {
	value, err := a.value.first(in)
	if err != nil || value == "" {
		return stoplog.Money{}, err
	}
	currency, err := a.currency.first(in)
	if err != nil {
		return stoplog.Money{}, err
	}
	currency = strings.ToUpper(currency)
	if currency == "" {
		currency = noCurrency
	}
	if len(currency) != 3 {
		return stoplog.Money{}, stoplog.Refuse(stoplog.ReasonMalformedBody, a.currency.label+" is no ISO 4217 code")
	}
	scale := 6
	if a.minor {
		exp, ok := exponents[currency]
		if !ok {
			exp = 2
		}
		scale -= exp
	}
	micros, ok := scaled(value, scale)
	if !ok {
		return stoplog.Money{}, stoplog.Refuse(stoplog.ReasonMalformedBody, a.value.label+" is no plain amount")
	}
	return stoplog.Money{Currency: currency, Micros: micros}, nil
}

// scaled is s times 10^scale, where s is digits with at most one decimal point. A remainder below one unit is rounded up.
func scaled(s string, scale int) (int64, bool) {
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || point && frac == "" {
		return 0, false
	}
	var n int64
	add := func(c byte) bool {
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			return false
		}
		n = n*10 + int64(c-'0')
		return true
	}
	for i := range len(whole) {
		if !add(whole[i]) {
			return 0, false
		}
	}
	for i := range scale {
		c := byte('0')
		if i < len(frac) {
			c = frac[i]
		}
		if !add(c) {
			return 0, false
		}
	}
	rest := false
	for i := scale; i < len(frac); i++ {
		if frac[i] < '0' || frac[i] > '9' {
			return 0, false
		}
		rest = rest || frac[i] != '0'
	}
	if rest {
		if n == math.MaxInt64 {
			return 0, false
		}
		n++
	}
	return n, true
}
