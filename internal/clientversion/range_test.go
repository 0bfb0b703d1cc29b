package clientversion

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestContains(t *testing.T) {
	for _, tc := range []struct {
		versions string
		in, out  string // words
	}{
		// Without a pre-release in the range only the numbers count.
		{"<0.9.0", "0.8.9 0.8.9-rc.1 0.8 0.0.0 0.8.99.12", "0.9.0 0.9.0-rc.1 0.9.0-243 0.9 0.9.0.1 1.0.0-alpha"},
		{">=0.9.0", "0.9.0 0.9.0-rc.1 0.9.0-nightly.20241130 1 v0.9", "0.8.99 0.8"},
		{"<=0.9.0", "0.9.0 0.9.0-rc.1 0.9.0.77 0.8", "0.9.1-rc.1 0.10"},
		{"<=0.9", "0.9.0 0.9.7-rc.1 0.8", "0.10.0-rc.1 1"},
		{">0.9.0", "0.9.1 0.9.1-rc.1 0.10", "0.9.0 0.9.0-rc.1 0.9.0.5"},
		{">0.9", "0.10.0-rc.1 1", "0.9.7 0.9"},
		{"<1.40.0", "1.39.5 1.5.29.7524 0.1", "1.40.0 1.300.0 1.40.0-rc.1"},
		{"=1.5.45", "1.5.45 1.5.45-243 1.5.45.1 1.5.45+x", "1.5.44 1.5.46"},
		{"1.5", "1.5.0 1.5.99-x", "1.4 1.6"},
		{"!=1.5.45", "1.5.44 1.5.46-243", "1.5.45 1.5.45-243"},
		{">=1.2 <2 || 3.x", "1.2 1.99.7 1.99-rc.1 3.0 3.7.1-beta", "1.1.9 2.0 2.0-rc.1 4"},
		{">=1.2, <2", "1.2 1.9", "2 1.1"},
		{"1.2 - 1.4", "1.2.0 1.4.9 1.4.9-rc.1", "1.1 1.5"},
		{"~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0-rc.1"},
		{"^1.2.3", "1.2.3 1.9", "1.2.2 2.0.0-rc.1"},
		{"^0.2.3", "0.2.3 0.2.9", "0.3.0-rc.1"},
		{"*", "0 1.2.3-x 2024.1", "nightly"},
		{"0.0.0", "0.0.0 0.0.0-dev", "0.0.1"},
		{"<2024.2", "2024.1 2024.1.5-EAP 2023.3", "2024.2-EAP 2024.3"},
		{"<17.10", "17.9.34728.123", "17.10.0 17.10.1-pre.1.0"},
		{"<1.2.20241130", "1.2.20241129", "1.2.20241130 1.2.20241130-243"},
		{"< 1.2", "1.1", "1.2"},
		{"<v1.2", "v1.1 1.1", "v1.2"},

		// With one, semver's precedence does, for what stands between two ||.
		{"<0.9.0-rc.2", "0.9.0-rc.1 0.9.0-beta 0.8", "0.9.0-rc.2 0.9.0-rc.10 0.9.0"},
		{">=0.9.0-rc.2", "0.9.0-rc.2 0.9.0-rc.10 0.9.0 1.0.0-alpha", "0.9.0-rc.1 0.9.0-beta.9"},
		{">=0.9.0-0 <0.9.0", "0.9.0-rc.1 0.9.0-alpha", "0.9.0 0.8.9"},
		{"=0.9.0-rc.1", "0.9.0-rc.1 0.9.0-rc.1+build", "0.9.0 0.9.0-rc.2"},
		{"1.0.0-a - 1.0.0-c", "1.0.0-b", "1.0.0 1.0.0-d"},
		{"<0.9.0-rc.2 || >1.0.0 <1.1.0", "0.9.0-rc.1 1.0.1-rc.1", "0.9.0-rc.3 1.0.0-rc.1 1.1.0-rc.1"},
		{"<1.2.0+a-b", "1.1.9", "1.2.0-rc.1"},

		// What cannot be read is in no range.
		{">=0", "0", "nightly 7f3c2a1 1.2.3_4"},
		{"!=1.0", "2", "nightly"},
	} {
		r, err := ParseRange(tc.versions)
		if err != nil {
			t.Errorf("%s: %v", tc.versions, err)
			continue
		}
		check := func(words string, want bool) {
			for word := range strings.FieldsSeq(words + " " + words) { // what is known too
				v, _ := Parse(word)
				if got := r.Contains(v); got != want {
					t.Errorf("%s in %q: %t, want %t", word, tc.versions, got, want)
				}
			}
		}
		check(tc.in, true)
		check(tc.out, false)
		if r.Contains(Version{}) {
			t.Errorf("%q: has the version that was not read", tc.versions)
		}
	}
}

func TestParseRangeRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "||", "<1 ||", "|| <1", "1.2.3.4", "<1.5.29.7524", "latest", "<nightly", "<", "<<1", "<1 <", "1.2.3-", "a - b", "<1.2;", "<1.2&&>1",
		"<1 and >0", "1x", "<18446744073709551616",
	} {
		_, err := ParseRange(text)
		if err == nil || !strings.Contains(err.Error(), `such as "<1.40.0"`) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"1.2-1.4", "1-2", "<2024.2-EAP", ">=1.2-0", ">1 <2.0-rc.1", "1.2-x || 1"} {
		if _, err := ParseRange(text); err == nil || !strings.Contains(err.Error(), "has a dash behind less than three numbers") {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err := ParseRange("<" + strings.Repeat("1", MaxRangeLength))
	if err == nil || err.Error() != "has 257 bytes; a range of versions has at most 256" {
		t.Error(err)
	}
}

// TestRangeForgets: a client that makes versions up does not fill the memory.
func TestRangeForgets(t *testing.T) {
	r, err := ParseRange("<1.40.0")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * maxKnown {
		v, _ := Parse(fmt.Sprintf("1.%d.0-made.up", i))
		if got := r.Contains(v); got != (i < 40) {
			t.Errorf("%d: %t", i, got)
		}
	}
	if n := r.known.Len(); n != maxKnown {
		t.Errorf("%d versions are remembered, want %d", n, maxKnown)
	}
}

func BenchmarkContains(b *testing.B) {
	r, err := ParseRange(">=1.2 <1.40.0")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if v, _ := Parse("1.40.0-rc.1"); r.Contains(v) {
			b.Fatal("it is in the range")
		}
	}
}

// TestTableOfRanges holds the table of the page to the code.
func TestTableOfRanges(t *testing.T) {
	const page = "../../docs/clients.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(data), "\n| range | has | has not |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok || strings.Count(table, "\n") < 10 {
		t.Fatalf("%s has no table of ranges", page)
	}
	quoted := regexp.MustCompile("`([^`]*)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		r, err := ParseRange(strings.ReplaceAll(quoted.FindStringSubmatch(cells[1])[1], "\x00", "|"))
		if err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		for want, cell := range map[bool]string{true: cells[2], false: cells[3]} {
			versions := quoted.FindAllStringSubmatch(cell, -1)
			if len(versions) == 0 {
				t.Errorf("%s: no version in %q", page, cell)
			}
			for _, version := range versions {
				v, _ := Parse(version[1])
				if got := r.Contains(v); got != want {
					t.Errorf("%s: %s in %s: %t, the page has %t", page, version[1], cells[1], got, want)
				}
			}
		}
	}
}
