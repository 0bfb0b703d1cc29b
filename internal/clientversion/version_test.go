package clientversion

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Version{
		"1.300.0":                       {numbers: [3]uint64{1, 300, 0}},
		"1.99":                          {numbers: [3]uint64{1, 99, 0}},
		"7":                             {numbers: [3]uint64{7, 0, 0}},
		"v1.2.3":                        {numbers: [3]uint64{1, 2, 3}},
		"V1.2.3":                        {numbers: [3]uint64{1, 2, 3}},
		"007.08.09":                     {numbers: [3]uint64{7, 8, 9}},
		"9.1.0123":                      {numbers: [3]uint64{9, 1, 123}},
		"1.5.29.7524":                   {numbers: [3]uint64{1, 5, 29}},
		"17.9.34728.123":                {numbers: [3]uint64{17, 9, 34728}},
		"1.2.3.4.5":                     {numbers: [3]uint64{1, 2, 3}},
		"1.2.20241130":                  {numbers: [3]uint64{1, 2, 20241130}},
		"1.2.3.99999999999999999999999": {numbers: [3]uint64{1, 2, 3}},
		"2024.1":                        {numbers: [3]uint64{2024, 1, 0}},
		"20241130":                      {numbers: [3]uint64{20241130, 0, 0}},
		"18446744073709551614":          {numbers: [3]uint64{18446744073709551614, 0, 0}},
		"1.5.45-243":                    {numbers: [3]uint64{1, 5, 45}, pre: "243"},
		"0.9.0-rc.1":                    {numbers: [3]uint64{0, 9, 0}, pre: "rc.1"},
		"0.9.0-rc.1+build.5":            {numbers: [3]uint64{0, 9, 0}, pre: "rc.1"},
		"1.99.0-insider":                {numbers: [3]uint64{1, 99, 0}, pre: "insider"},
		"42-insider":                    {numbers: [3]uint64{42, 0, 0}, pre: "insider"},
		"3+build":                       {numbers: [3]uint64{3, 0, 0}},
		"1.2.3+a_b/c":                   {numbers: [3]uint64{1, 2, 3}},
		"0.11.0-dev-1234+g4f3a":         {numbers: [3]uint64{0, 11, 0}, pre: "dev-1234"},
		"0.5.0-nightly.20241130":        {numbers: [3]uint64{0, 5, 0}, pre: "nightly.20241130"},
		"2024.3.1.1-EAP":                {numbers: [3]uint64{2024, 3, 1}, pre: "EAP"},
		"17.9.0-pre.1.0":                {numbers: [3]uint64{17, 9, 0}, pre: "pre.1.0"},
		"1.2.3rc1":                      {numbers: [3]uint64{1, 2, 3}, pre: "rc1"},
		"1.0b2":                         {numbers: [3]uint64{1, 0, 0}, pre: "b2"},
		"0.30.0.dev20":                  {numbers: [3]uint64{0, 30, 0}, pre: "dev20"},
		"1.2.3-01":                      {numbers: [3]uint64{1, 2, 3}, pre: "01"},
	} {
		want.isRead = true
		if got, ok := Parse(text); got != want || !ok {
			t.Errorf("%q: %+v, %t; want %+v", text, got, ok, want)
		}
	}
}

func TestParseRefusesWhatIsNoVersion(t *testing.T) {
	for _, text := range []string{
		"", "v", "vv1", "nightly", "latest", "unknown", "Python", "main-2024", "deadbeef",
		"7f3c2a1", "0abc123", "1x", // the beginning of a hash looks like a number
		".5", "-1", "+1", "1.", "1..2", "1.2.3-", "1.2.3.", "1.2.3--rc", "1.2.3-rc..1", "1.2.3-rc_1", "1.2.3_4", "1.2.3 4", "1,2", "１.2",
		"18446744073709551615", "99999999999999999999999.1", "1.99999999999999999999999", "1." + strings.Repeat("0", MaxLength),
	} {
		if got, ok := Parse(text); got != (Version{}) || ok {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"1.2.3-rc.1+b", "v7", "1.5.29.7524", "2024.3.1.1-EAP", "1.0b2", "7f3c2a1", "1.2.3-"} {
		f.Add(text)
	}
	ranges := make([]*Range, 0, 3)
	for _, text := range []string{">=0", "<1.2.3-rc.1", "1.x || ^0.2"} {
		r, err := ParseRange(text)
		if err != nil {
			f.Fatal(err)
		}
		ranges = append(ranges, r)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := Parse(text)
		for _, r := range ranges {
			r.Contains(v)
		}
		if !ok {
			if v != (Version{}) || ranges[0].Contains(v) {
				t.Errorf("%q: %+v cannot be read", text, v)
			}
			return
		}
		if !ranges[0].Contains(v) {
			t.Errorf("%q: %+v is not at least 0", text, v)
		}
		// What was read reads the same in the strict form.
		again, ok := Parse(v.semantic(true).String())
		if (again != v || !ok) && len(v.semantic(true).String()) <= MaxLength {
			t.Errorf("%q: %+v, but %+v as %s", text, v, again, v.semantic(true))
		}
	})
}
