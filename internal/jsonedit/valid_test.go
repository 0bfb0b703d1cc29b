package jsonedit

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `0`, `-0`, `-1.5e+10`, `1E5`, `0.1`, `true`, `false`, `null`, ` { "a" : [ 1 , { } ] } `, "\t\r\n1",
		`{"a":"\"\\\/\b\f\n\r\t\u00eF"}`, `"` + strings.Repeat("é", 50) + `"`, `[[[]]]`, "\"\x7f\x80\xff\"", // the encoding is not looked at
		``, ` `, `{`, `}`, `[`, `[1`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{1:1}`, `{"a" 1}`, `{'a':1}`, `{a:1}`,
		`01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `Infinity`, `NaN`, `nul`, `truee`, `True`, `1 1`, `{}{}`, `{},`,
		`"`, `"a`, `"\`, `"\"`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"a\nb\"", "\"a\x00\"", "\"\x1f\"", "\x00", "1\x00", "{\x00}", "\ufeff{}",
	} {
		if got, deep := Valid([]byte(text), 100); got != json.Valid([]byte(text)) || deep {
			t.Errorf("%q: valid %v, too deep %v; want %v", text, got, deep, json.Valid([]byte(text)))
		}
	}
}

func TestValidDepth(t *testing.T) {
	for _, tc := range []struct {
		text        string
		ok, tooDeep bool
	}{
		{`[[[]]]`, true, false}, {`{"a":{"b":{}}}`, true, false}, {`[[],[],[],[[]],[{}]]`, true, false},
		{`[[[[]]]]`, false, true}, {`{"a":[{"b":[]}]}`, false, true}, {strings.Repeat("[", 1_000_000), false, true},
		{`[[[`, false, false}, {`"[[[[["`, true, false},
	} {
		if ok, tooDeep := Valid([]byte(tc.text), 3); ok != tc.ok || tooDeep != tc.tooDeep {
			t.Errorf("%.40q: valid %v, too deep %v; want %v, %v", tc.text, ok, tooDeep, tc.ok, tc.tooDeep)
		}
	}
}

// TestPlain puts each byte at each place of a word.
func TestPlain(t *testing.T) {
	for c := range 256 {
		for place := range 19 {
			text := []byte(strings.Repeat("\x80", 19))
			text[place] = byte(c)
			want := len(text)
			if c == '"' || c == '\\' || c < ' ' {
				want = place
			}
			if got := plain(text); got != want {
				t.Errorf("byte %#x at %d: %d plain bytes, want %d", c, place, got, want)
			}
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e3,"x\n\u0041",true,null]}`, `[[[[]]]]`, `"` + strings.Repeat("a", 17) + `\"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, deep := Valid(text, 1000); !deep && got != json.Valid(text) {
			t.Errorf("%q: valid %v, encoding/json says %v", text, got, !got)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`{"prompt":"` + strings.Repeat(`\tif err := run(ctx, options); err != nil { return err }\n`, 70) + `","max_tokens":9}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Valid(text, 64)
	}
}
