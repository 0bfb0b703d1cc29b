package token

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostileIsCheap: whatever a token is, refusing it costs no more than a good one
// may, in time and in memory.
func TestHostileIsCheap(t *testing.T) {
	const runs, most = 50, 128 << 10
	kid := func(n int) string {
		return signed(goodHeader().with("kid", strings.Repeat("k", n)), goodPayload())
	}
	nested := strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500)
	cases := map[string]string{
		"a million dots":   strings.Repeat(".", 1_000_000),
		"1 MB":             signedText(goodHeader().String(), strings.Repeat("A", 1<<20)),
		"kid of 2 KB":      kid(2_000),
		"kid of 10 KB":     kid(10_000),
		"nested header":    signedText(nested, goodPayload().String()),
		"brackets":         signedText(strings.Repeat("[", 2000), "{}"),
		"nested payload":   signedText(goodHeader().String(), strings.Repeat("[", 2000)),
		"many claims":      signedText(goodHeader().String(), "{"+strings.Repeat(`"a":1,`, 400)+`"b":1}`),
		"a long number":    signedText(goodHeader().String(), `{"exp":`+strings.Repeat("9", 2500)+`}`),
		"a long exponent":  signedText(goodHeader().String(), `{"exp":1e`+strings.Repeat("9", 2500)+`}`),
		"escapes":          signedText(goodHeader().String(), `{"sub":"`+strings.Repeat(`\u0000`, 400)+`"}`),
		"a long list":      signedText(goodHeader().String(), `{"aud":[`+strings.Repeat(`"",`, 700)+`""]}`),
		"good, as a bound": signed(goodHeader(), goodPayload()),
	}
	took := map[string]time.Duration{}
	for name, raw := range cases {
		var before, after runtime.MemStats
		took[name] = time.Hour
		runtime.ReadMemStats(&before)
		for range runs {
			begun := time.Now()
			_, _ = verify(raw)
			took[name] = min(took[name], time.Since(begun))
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / runs; each > most {
			t.Errorf("%s: %d bytes are allocated, want %d at most", name, each, most)
		}
	}
	bound := took["good, as a bound"]
	for name, d := range took {
		if d > 10*bound {
			t.Errorf("%s: takes %v, ten times as long as a good token's %v", name, d, bound)
		}
	}
}
