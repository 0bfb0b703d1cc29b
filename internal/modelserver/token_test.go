package modelserver

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTokens(t *testing.T) {
	long := strings.Repeat("x", maxTokenBytes)
	for _, test := range []struct {
		text string
		want []string
	}{
		{"if err != nil {\n\t\treturn x1\n\n}", []string{"if", " err", " !=", " nil", " {", "\n\t\treturn"[:3], "return", " x1", "\n\n", "}"}},
		{"a  b", []string{"a", "  ", "b"}},
		{"a ", []string{"a", " "}},
		{"a \n", []string{"a", " ", "\n"}},
		{"f(12, y)", []string{"f", "(", "12", ",", " y", ")"}},
		{"größe = 1", []string{"größe", " =", " 1"}},
		{"\r\n  x", []string{"\r\n  ", "x"}},
		{long + "yz", []string{long, "yz"}},
		// A cut never splits a character.
		{long[1:] + "é", []string{long[1:], "é"}},
	} {
		got, count := tokens(test.text, 100)
		if !slices.Equal(got, test.want) || count != len(test.want) {
			t.Errorf("tokens(%q) = %q, %d; want %q", test.text, got, count, test.want)
		}
	}
}

func TestTokensKeepsTheLast(t *testing.T) {
	last, count := tokens("a b c d", 2)
	if want := []string{" c", " d"}; !slices.Equal(last, want) || count != 4 {
		t.Errorf("got %q, %d; want %q, 4", last, count, want)
	}
	if last, count := tokens("a b", 0); len(last) != 0 || count != 2 {
		t.Errorf("keeping none: got %q, %d", last, count)
	}
}

// TestTokensOfLongWord would run for longer than a test may if each token were
// looked for to the end of the word.
func TestTokensOfLongWord(t *testing.T) {
	if _, count := tokens(strings.Repeat("x", maxBodyBytes), 0); count != maxBodyBytes/maxTokenBytes {
		t.Errorf("%d tokens, want %d", count, maxBodyBytes/maxTokenBytes)
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("func main() {\n\tfmt.Println(\"grüße\", 12)\n}\n")
	f.Add(strings.Repeat("é", maxTokenBytes))
	f.Add(strings.Repeat("\xbf", 2*maxTokenBytes))
	f.Fuzz(func(t *testing.T, text string) {
		all, count := tokens(text, len(text))
		if strings.Join(all, "") != text || len(all) != count {
			t.Fatalf("tokens(%q) = %q, %d", text, all, count)
		}
		for _, token := range all {
			if token == "" || len(token) > maxTokenBytes {
				t.Fatalf("token %q has %d bytes", token, len(token))
			}
			if utf8.ValidString(text) && !utf8.ValidString(token) {
				t.Fatalf("token %q splits a character", token)
			}
		}
	})
}
