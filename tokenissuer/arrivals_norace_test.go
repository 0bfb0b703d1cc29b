//go:build !race

package tokenissuer

const arrivals = 10_000
