package limit

import (
	"math"
	"time"
)

// bucket is refilled lazily by whoever looks at it.
type bucket struct {
	level float64
	high  time.Time // last time the level was seen above half
}

func (b *bucket) refill(now time.Time, gone, rate, size float64) {
	b.level = min(size, b.level+gone*rate)
	if b.level > size/2 {
		b.high = now
	}
}

// giveBack returns what was taken at an earlier instant and not used. Returning it in full could break the bound
// Burst + Rate x T: had it not been taken, the bucket might have been full and have lost what it was refilled with since. So
// it returns in full (up to half a bucket) only if the bucket was never above half since; otherwise what refilling has
// replaced meanwhile stays away.
func (b *bucket) giveBack(amount float64, taken, now time.Time, rate, size float64) {
	if b.high.After(taken) {
		amount -= now.Sub(taken).Seconds() * rate
	} else {
		amount = min(amount, max(size/2, amount-now.Sub(taken).Seconds()*rate))
	}
	b.level = min(size, b.level+max(amount, 0))
}

func refillTime(missing, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(min(missing/rate, 1e6) * float64(time.Second)))
}
