// Package clientversion reads the versions that programs give themselves, which
// are seldom strictly semantic ones, and ranges of them.
package clientversion

import (
	"math"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// MaxLength bounds a version, in bytes; what is longer cannot be read.
const MaxLength = 64

// Version is what a program says of its version: up to three numbers, and a mark
// of a pre-release. The zero Version could not be read; it is in no range.
type Version struct {
	numbers [3]uint64
	pre     string
	isRead  bool
}

// Parse reads a version leniently:
//
//   - a "v" before it does not count;
//   - numbers that are missing are 0, and those behind the third do not count;
//   - what follows the numbers, behind "-", "." or nothing, marks a pre-release
//     (1.2.3-rc.1, 1.2.3.dev4, 1.2rc1), or a build for one platform (1.5.45-243),
//     which cannot be told apart;
//   - what follows a "+" does not count.
//
// It says false for all else, a commit's hash such as 7f3c2a1 too.
func Parse(text string) (Version, bool) {
	if len(text) > MaxLength {
		return Version{}, false
	}
	rest := strings.TrimLeft(text, "vV")
	if len(text)-len(rest) > 1 {
		return Version{}, false
	}
	v := Version{isRead: true}
	count := 0
	for more := true; more; count++ {
		number, digits := leadingNumber(rest)
		if digits == 0 || count < len(v.numbers) && number == math.MaxUint64 {
			return Version{}, false
		}
		if count < len(v.numbers) {
			v.numbers[count] = number
		}
		rest = rest[digits:]
		if more = len(rest) > 1 && rest[0] == '.' && isDigit(rest[1]); more {
			rest = rest[1:]
		}
	}
	pre, _, _ := strings.Cut(rest, "+")
	if pre == "" {
		return v, true
	}
	marked := strings.TrimLeft(pre, "-.")
	switch {
	case len(pre)-len(marked) > 1, !isPrerelease(marked):
		return Version{}, false
	case len(pre) == len(marked) && count == 1:
		return Version{}, false // a hash
	}
	v.pre = marked
	return v, true
}

// Major returns the first number, and false if v could not be read.
func (v Version) Major() (uint64, bool) { return v.numbers[0], v.isRead }

// leadingNumber returns the number at the beginning of text, math.MaxUint64 if it
// is at least that, and how many digits it has.
func leadingNumber(text string) (number uint64, digits int) {
	for digits < len(text) && isDigit(text[digits]) {
		digit := uint64(text[digits] - '0')
		if number > (math.MaxUint64-digit)/10 {
			number = math.MaxUint64
		} else {
			number = 10*number + digit
		}
		digits++
	}
	return number, digits
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isPrerelease says whether text is made of identifiers as semantic versions
// have them (semver.org, section 9), but for leading zeros.
func isPrerelease(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" {
			return false
		}
		for _, c := range []byte(part) {
			if !isDigit(c) && c != '-' && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') {
				return false
			}
		}
	}
	return true
}

// semantic is the version with its pre-release, or without.
func (v Version) semantic(withPre bool) *semver.Version {
	pre := ""
	if withPre {
		pre = v.pre
	}
	return semver.New(v.numbers[0], v.numbers[1], v.numbers[2], pre, "")
}
