//go:build !race

package segment

const raceFactor = 1
