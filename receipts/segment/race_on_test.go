//go:build race

package segment

const raceFactor = 10 // the race detector costs thirty times the time
