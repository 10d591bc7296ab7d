//go:build !race

package demo

import "time"

const limit = 30 * time.Second
