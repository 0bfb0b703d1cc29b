//go:build race

package tokenissuer

// arrivals are fewer with the race detector, which makes clients too slow to read what
// they are sent before the issuer gives them up.
const arrivals = 2_000
