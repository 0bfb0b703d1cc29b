package modelserver

import (
	"strings"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	for spec, want := range map[string]fault{
		"":                               {after: beforeHeaders},
		" ; ":                            {after: beforeHeaders},
		"status=503; retry-after=2":      {after: beforeHeaders, kind: faultStatus, status: 503, retryAfter: "2"},
		"garbage":                        {after: beforeHeaders, kind: faultGarbage},
		"hang=headers":                   {after: beforeHeaders, kind: faultHang},
		"hang-after=0":                   {kind: faultHang},
		"break=headers":                  {after: beforeHeaders, kind: faultBreak},
		"break-after=3":                  {kind: faultBreak, after: 3},
		"error-first":                    {kind: faultError},
		"error-after=2;slow-start=500ms": {kind: faultError, after: 2, slowStart: 500 * time.Millisecond},
		"slow-start=1s":                  {after: beforeHeaders, slowStart: time.Second},
		"no-done":                        {after: beforeHeaders, kind: faultNoDone},
	} {
		got, err := parseFault(spec)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
		} else if got != want {
			t.Errorf("%q: got %+v; want %+v", spec, got, want)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"stutter":                      "there is no such fault; the forms are:\nstatus=CODE",
		"garbage=1":                    "there is no such fault",
		"status":                       "a number from 400 to 599",
		"status=200":                   "a number from 400 to 599",
		"retry-after=":                 "retry-after needs a value",
		"garbage;retry-after=1":        "retry-after goes with status only",
		"hang=1":                       "use hang-after=N",
		"break-after=-1":               "a number from 0",
		"error-after=x":                "a number from 0",
		"slow-start=5":                 "as in 500ms",
		"slow-start=-5s":               "above zero",
		"slow-start=2h":                "up to 1h",
		"status=500;slow-start=1s":     "slow-start does not go with status",
		"break-after=1;hang-after=2":   "has 2 things go wrong; choose one",
		"error-first;no-done; garbage": "has 3 things go wrong; choose one",
	} {
		_, err := parseFault(spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one with %q", spec, err, want)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	f.Add("status=503;retry-after=2")
	f.Add("slow-start=500ms;break-after=3")
	f.Add("hang=headers")
	f.Fuzz(func(t *testing.T, spec string) {
		got, err := parseFault(spec)
		if err != nil {
			return
		}
		if got.after < beforeHeaders || got.slowStart < 0 || got.slowStart > maxTime ||
			(got.kind == faultStatus) != (got.status != 0) {
			t.Fatalf("%q: accepted as %+v", spec, got)
		}
		if got.kind == faultNone && got.slowStart == 0 && strings.Trim(strings.Join(strings.Fields(spec), ""), ";") != "" {
			t.Fatalf("%q: accepted as no fault", spec)
		}
	})
}
