package clientversion

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	lru "github.com/hashicorp/golang-lru/v2"
)

// MaxRangeLength bounds a range, in bytes.
const MaxRangeLength = 256

// maxKnown is how many versions a range remembers whether it has.
const maxKnown = 256

// Range is a set of versions. It may be asked by several goroutines at once.
type Range struct {
	alternatives []alternative
	// known are versions that were asked for. Of one program there are few, and the
	// library makes an error with a text for each comparison that does not hold.
	known *lru.Cache[Version, bool]
}

// alternative is one of those that stand between "||".
type alternative struct {
	constraints *semver.Constraints
	// precise says that pre-releases count. They do where one is named: of all else
	// people mean the numbers, and "<0.9.0" must not catch the testers of 0.9.0.
	precise bool
}

// ParseRange reads a range such as "<1.40.0", ">=1.2 <2", "~1.2 || 3.x" or
// "1.2 - 1.4". The error is a sentence's end: what is wrong, and what would be right.
func ParseRange(text string) (*Range, error) {
	if len(text) > MaxRangeLength {
		return nil, fmt.Errorf("has %d bytes; a range of versions has at most %d", len(text), MaxRangeLength)
	}
	known, err := lru.New[Version, bool](maxKnown)
	if err != nil {
		return nil, err
	}
	r := &Range{known: known}
	for part := range strings.SplitSeq(text, "||") {
		if strings.TrimSpace(part) == "" { // the library takes some such for any version
			return nil, notRange(text)
		}
		constraints, err := semver.NewConstraint(part)
		if err != nil {
			return nil, notRange(text)
		}
		precise, whole := prereleases(part)
		if !whole {
			return nil, fmt.Errorf("%q has a dash behind less than three numbers; a pre-release needs all three, such as 1.2.0-rc.1, "+
				`and a range from one version to another blanks around its dash, such as "1.2 - 1.4"`, text)
		}
		r.alternatives = append(r.alternatives, alternative{constraints, precise})
	}
	return r, nil
}

func notRange(text string) error {
	return fmt.Errorf("%q is no range of versions; it must be made of comparisons with versions of up to three numbers, "+
		`such as "<1.40.0", ">=1.2 <2" or "1.x || ~2.3"`, text)
}

// prereleases says whether a version in the text has a pre-release, and whether each
// that has one has all its numbers too: of others it is not clear what they mean, and the
// library takes 1.2-1.4 for 1.2.x. The dash of "1.2 - 1.4" stands alone.
func prereleases(text string) (some, whole bool) {
	whole = true
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		version, _, _ := strings.Cut(word, "+")
		if numbers, _, dash := strings.Cut(version, "-"); dash && numbers != "" {
			some, whole = true, whole && strings.Count(numbers, ".") == 2
		}
	}
	return some, whole
}

// Contains says whether v is in the range. Where an alternative of the range names a
// pre-release, versions compare by semver's precedence (semver.org, section 11);
// elsewhere by their numbers alone.
func (r *Range) Contains(v Version) bool {
	if !v.isRead {
		return false
	}
	if has, ok := r.known.Get(v); ok {
		return has
	}
	has := r.check(v)
	v.pre = strings.Clone(v.pre) // it may be a part of much that a client sent
	r.known.Add(v, has)
	return has
}

func (r *Range) check(v Version) bool {
	for _, a := range r.alternatives {
		if a.constraints.Check(v.semantic(a.precise)) {
			return true
		}
	}
	return false
}
