package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll returns the data of every event in src and the error that ended it.
func readAll(src io.Reader) ([]string, error) { return readFramed(src, Events) }

func readFramed(src io.Reader, framing Framing) ([]string, error) {
	var events []string
	reader := NewReader(nil)
	reader.Reset(src, framing)
	for {
		data, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

type readCase struct {
	name  string
	input string
	want  []string
}

var readCases = []readCase{
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

var lineCases = []readCase{
	{"LF", "a\nb\n", []string{"a", "b"}},
	{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
	{"CR", "a\rb\r", []string{"a", "b"}},
	{"mixed line ends", "a\r\nb\rc\nd\r\r\n", []string{"a", "b", "c", "d"}},
	{"empty lines", "\n\r\na\n\n\rb\n\n", []string{"a", "b"}},
	{"last line without an end", "a\nb", []string{"a", "b"}},
	{"byte order mark", "\xef\xbb\xbfa\nb\n", []string{"a", "b"}},
	{"second byte order mark is content", "\xef\xbb\xbfa\n\xef\xbb\xbfb\n", []string{"a", "\xef\xbb\xbfb"}},
	{"only a byte order mark before the first line", "\xef\xbb\xbf\na", []string{"a"}},
	{"blanks are content", " a \n\t\n", []string{" a ", "\t"}},
	{"what is no line of data elsewhere", "data: a\n: b\nid: 7\n", []string{"data: a", ": b", "id: 7"}},
	{"multibyte text", "héllo 世界 🦉\n", []string{"héllo 世界 🦉"}},
	{"a line over the read size", strings.Repeat("x", 3*readSize) + "\nb\n", []string{strings.Repeat("x", 3*readSize), "b"}},
	{"nothing", "", nil},
	{"only a byte order mark", "\xef\xbb\xbf", nil},
	{"only line ends", "\n\r\n\r", nil},
}

// framings are the cases of each framing.
var framings = map[Framing][]readCase{Events: readCases, Lines: lineCases}

func TestReader(t *testing.T) {
	for framing, cases := range framings {
		for _, tc := range cases {
			t.Run(fmt.Sprint(tc.name, framing), func(t *testing.T) {
				for how, src := range map[string]io.Reader{
					"whole":          strings.NewReader(tc.input),
					"byte by byte":   iotest.OneByteReader(strings.NewReader(tc.input)),
					"EOF with data":  iotest.DataErrReader(strings.NewReader(tc.input)),
					"half at a time": iotest.HalfReader(strings.NewReader(tc.input)),
				} {
					got, err := readFramed(src, framing)
					if err != io.EOF || !slices.Equal(got, tc.want) {
						t.Errorf("%s: got %q, %v; want %q, EOF", how, got, err, tc.want)
					}
				}
			})
		}
	}
}

// TestReport4SplitAnywhere guards against the reports of text and JSON cut off
// where a read ends: the same events whatever the split.
func TestReport4SplitAnywhere(t *testing.T) {
	for framing, cases := range framings {
		for _, tc := range cases {
			if len(tc.input) > 1000 {
				continue
			}
			for at := range len(tc.input) + 1 {
				src := io.MultiReader(strings.NewReader(tc.input[:at]), strings.NewReader(tc.input[at:]))
				if got, err := readFramed(src, framing); err != io.EOF || !slices.Equal(got, tc.want) {
					t.Errorf("%s split at %d: got %q, %v; want %q", tc.name, at, got, err, tc.want)
				}
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
	src = io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken))
	got, err = readFramed(src, Lines)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, %v; want the first line, then the error", got, err)
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
		reader.Reset(strings.NewReader("\xef\xbb\xbfdata: a\n\n"), Events)
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

// FuzzReader checks that no input panics and that splitting changes nothing,
// wherever the parts end and however many they are.
func FuzzReader(f *testing.F) {
	for framing, cases := range framings {
		for _, tc := range cases {
			f.Add([]byte(tc.input), []byte{3, 0, 1}, framing == Lines)
			f.Add([]byte(tc.input), []byte{1}, framing == Lines)
		}
	}
	f.Fuzz(func(t *testing.T, input, sizes []byte, lines bool) {
		framing := Events
		if lines {
			framing = Lines
		}
		whole, err := readFramed(bytes.NewReader(input), framing)
		for _, endWithData := range []bool{false, true} {
			split, splitErr := readFramed(&parts{input: input, sizes: sizes, endWithData: endWithData}, framing)
			if err != splitErr || !slices.Equal(whole, split) {
				t.Errorf("in parts of %d: %q, %v; whole: %q, %v", sizes, split, splitErr, whole, err)
			}
		}
	})
}

// parts is read in parts of these sizes, in turn. A read of nothing is one too.
type parts struct {
	input, sizes []byte
	endWithData  bool // the last part comes with its EOF
	reads        int
}

func (p *parts) Read(b []byte) (int, error) {
	size := len(p.input)
	if len(p.sizes) > 0 {
		size = int(p.sizes[p.reads%len(p.sizes)])
		if p.reads >= 2*len(p.sizes) { // all of them may be 0
			size++
		}
	}
	p.reads++
	n := copy(b, p.input[:min(size, len(p.input))])
	p.input = p.input[n:]
	if len(p.input) == 0 && (n == 0 || p.endWithData) {
		return n, io.EOF
	}
	return n, nil
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
		reader.Reset(src, Events)
		for {
			if _, err := reader.Next(); err != nil {
				break
			}
		}
	}
}

// TestManyShortLines has a unit send many lines behind an event as long as one may be,
// whose buffer takes them all at once. A line costs what it is long, whatever it ends
// with: a look for an LF in all that has come made those in CR a thousand times dearer.
func TestManyShortLines(t *testing.T) {
	const size = 3 << 20
	long := "data: " + strings.Repeat("x", size) + "\n\n"
	took := map[string]time.Duration{}
	for _, end := range []string{"\n", "\r"} {
		r := NewReader(strings.NewReader(long + strings.Repeat(end, size/8)))
		if data, err := r.Next(); err != nil || len(data) != size {
			t.Fatalf("got %d bytes and %v", len(data), err)
		}
		began := time.Now()
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%q: got %v, want the end", end, err)
		}
		took[end] = time.Since(began)
	}
	if took["\r"] > 50*took["\n"] {
		t.Errorf("lines in CR took %s, those in LF %s", took["\r"], took["\n"])
	}
}
