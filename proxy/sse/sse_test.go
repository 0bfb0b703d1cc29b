package sse

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns the data of every event in src and the error that ended it.
func readAll(src io.Reader) ([]string, error) {
	var events []string
	reader := NewReader(src)
	for {
		data, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

var readCases = []struct {
	name  string
	input string
	want  []string
}{
	{"LF", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
	{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
	{"mixed line ends", "data: a\r\n\ndata: b\r\r\ndata: c\n\r\n", []string{"a", "b", "c"}},
	{"no space after the colon", "data:a\n\n", []string{"a"}},
	{"only one space is taken off", "data:  a\n\n", []string{" a"}},
	{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
	{"second byte order mark is content", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []string{"a"}},
	{"comments", ": ping\n\n:\n\ndata: a\n: mid-event\n\n", []string{"a"}},
	{"other fields", "event: x\nid: 7\nretry: 5\nfoo: bar\ndata: a\n\n", []string{"a"}},
	{"event without data", "event: ping\n\ndata: a\n\n", []string{"a"}},
	{"empty data", "data:\n\ndata: \n\ndata\n\ndata: a\n\n", []string{"a"}},
	{"several data lines", "data: a\ndata: b\ndata\ndata: c\n\n", []string{"a\nb\n\nc"}},
	{"first data line empty", "data:\ndata: b\n\n", []string{"\nb"}},
	{"last event without a blank line", "data: a\n\ndata: b\n", []string{"a", "b"}},
	{"last line without an end", "data: a\n\ndata: b", []string{"a", "b"}},
	{"field name that only begins with data", "database: x\n\ndata: a\n\n", []string{"a"}},
	{"multibyte text", "data: héllo 世界 🦉\n\n", []string{"héllo 世界 🦉"}},
	{"an event over the read size", "data: " + strings.Repeat("x", 3*readSize) + "\n\ndata: b\n\n", []string{strings.Repeat("x", 3*readSize), "b"}},
	{"nothing", "", nil},
	{"only a byte order mark", "\xef\xbb\xbf", nil},
	{"only line ends", "\n\r\n\r", nil},
}

func TestReader(t *testing.T) {
	for _, tc := range readCases {
		t.Run(tc.name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{
				"whole":          strings.NewReader(tc.input),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(tc.input)),
				"EOF with data":  iotest.DataErrReader(strings.NewReader(tc.input)),
				"half at a time": iotest.HalfReader(strings.NewReader(tc.input)),
			} {
				got, err := readAll(src)
				if err != io.EOF || !slices.Equal(got, tc.want) {
					t.Errorf("%s: got %q, %v; want %q, EOF", how, got, err, tc.want)
				}
			}
		})
	}
}

// TestReaderSplitAnywhere guards against the reports of text and JSON cut off
// where a read ends: the same events whatever the split.
func TestReaderSplitAnywhere(t *testing.T) {
	for _, tc := range readCases {
		if len(tc.input) > 1000 {
			continue
		}
		for at := range len(tc.input) + 1 {
			src := io.MultiReader(strings.NewReader(tc.input[:at]), strings.NewReader(tc.input[at:]))
			if got, err := readAll(src); err != io.EOF || !slices.Equal(got, tc.want) {
				t.Errorf("%s split at %d: got %q, %v; want %q", tc.name, at, got, err, tc.want)
			}
		}
	}
}

// TestReaderBrokenInput: an unfinished event must not be taken for a whole one
// when the connection broke.
func TestReaderBrokenInput(t *testing.T) {
	broken := errors.New("stream reset")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	got, err := readAll(src)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, %v; want the first event, then the error", got, err)
	}
}

func TestReaderTooLong(t *testing.T) {
	endless := map[string]io.Reader{
		"one line":   io.MultiReader(strings.NewReader("data: "), repeat("x")),
		"many lines": repeat("data: x\n"),
		"a comment":  io.MultiReader(strings.NewReader(":"), repeat("x")),
	}
	for name, src := range endless {
		if _, err := readAll(src); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: got %v, want ErrTooLong", name, err)
		}
	}
	input := "data: " + strings.Repeat("x", 1<<20) + "\n\n"
	if got, err := readAll(strings.NewReader(input)); err != io.EOF || len(got) != 1 || len(got[0]) != 1<<20 {
		t.Errorf("an event of 1 MiB: got %d events, %v", len(got), err)
	}
}

// repeat is an endless input.
func repeat(unit string) io.Reader { return &repeater{unit: []byte(unit)} }

type repeater struct {
	unit []byte
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.unit[r.at]
		r.at = (r.at + 1) % len(r.unit)
	}
	return len(p), nil
}

func TestReaderReset(t *testing.T) {
	reader := NewReader(strings.NewReader("data: a\r"))
	for range 2 {
		data, err := reader.Next()
		if err != nil || string(data) != "a" {
			t.Fatalf("got %q, %v; want a", data, err)
		}
		reader.Reset(strings.NewReader("\xef\xbb\xbfdata: a\n\n"))
	}
}

func TestAppendRoundTrip(t *testing.T) {
	stream := Append(Append(nil, []byte(`{"a":1}`)), []byte("[DONE]"))
	if want := "data: {\"a\":1}\n\ndata: [DONE]\n\n"; string(stream) != want {
		t.Errorf("got %q, want %q", stream, want)
	}
	if got, err := readAll(bytes.NewReader(stream)); err != io.EOF || !slices.Equal(got, []string{`{"a":1}`, "[DONE]"}) {
		t.Errorf("read back %q, %v", got, err)
	}
}

// FuzzReader checks that no input panics and that splitting changes nothing.
func FuzzReader(f *testing.F) {
	for _, tc := range readCases {
		f.Add([]byte(tc.input), 3)
	}
	f.Fuzz(func(t *testing.T, input []byte, at int) {
		whole, err := readAll(bytes.NewReader(input))
		if at < 0 || at > len(input) {
			at = 0
		}
		split, splitErr := readAll(io.MultiReader(bytes.NewReader(input[:at]), iotest.OneByteReader(bytes.NewReader(input[at:]))))
		if err != splitErr || !slices.Equal(whole, split) {
			t.Errorf("split at %d: %q, %v; whole: %q, %v", at, split, splitErr, whole, err)
		}
	})
}

// BenchmarkReader is one streamed completion of ten events.
func BenchmarkReader(b *testing.B) {
	event := `{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"text":" token","index":0,"logprobs":null,"finish_reason":null}]}`
	input := strings.Repeat("data: "+event+"\n\n", 10) + "data: [DONE]\n\n"
	src := strings.NewReader(input)
	reader := NewReader(src)
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(input)
		reader.Reset(src)
		for {
			if _, err := reader.Next(); err != nil {
				break
			}
		}
	}
}
