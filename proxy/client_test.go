package proxy

import (
	"testing"

	"github.com/ghostline-dev/ghostline/internal/clientversion"
)

func TestMajorOf(t *testing.T) {
	for version, want := range map[string]int{
		"1.300.0": 1, "0.9.0-rc.1": 0, "7": 7, "99.1": 99, "42-insider": 42, "3+build": 3, "007.1": 7, "v1.2": 1,
		"": majorVersions, "100.0": majorVersions, "99999999999999999999999.1": majorVersions, "2026.1": majorVersions,
		"1x": majorVersions, ".5": majorVersions, "-1": majorVersions, "Python": majorVersions,
	} {
		number, _ := clientversion.Parse(version)
		if got := majorOf(number); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}
