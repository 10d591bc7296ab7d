//go:build race

package demo

import "time"

// The promise is about the program as it ships; the race detector makes it many times slower.
const limit = 3 * time.Minute
