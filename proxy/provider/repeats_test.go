package provider

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var ignoreText = cmpopts.IgnoreUnexported(Event{})

// TestRepeats reads streams with and without a memory, which must not show.
func TestRepeats(t *testing.T) {
	text := func(text string) string { return chunk(`{"index":0,"text":` + text + `,"finish_reason":null}`) }
	for name, stream := range map[string][]string{
		"texts":             {text(`"a"`), text(`"b"`), text(`"long and then"`), text(`"c"`)},
		"escapes":           {text(`"a"`), text(`"\n"`), text(`"\""`), text(`"\\"`), text(`"\u0041"`), text(`"b"`)},
		"no text":           {text(`"a"`), text(`""`), text(`null`), text(`5`), text(`"b"`)},
		"bad texts":         {text(`"a"`), text(`"\"`), text(`"\x"`), text("\"\n\""), text(`"a"b"`), text(`"a","text":""`)},
		"smuggled":          {text(`"a"`), text(`"b","finish_reason":"stop","x":"c"`)},
		"the end":           {text(`"a"`), chunk(`{"index":0,"text":"b","finish_reason":"stop"}`), text(`"c"`), chunk(``), "[DONE]"},
		"other choice":      {text(`"a"`), chunk(`{"index":1,"text":"b","finish_reason":null}`), text(`"c"`)},
		"two choices":       {chunk(`{"index":0,"text":"a"},{"index":1,"text":"b"}`), chunk(`{"index":0,"text":"a"},{"index":1,"text":""}`)},
		"usage":             {`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":7}}`, `{"choices":[{"text":"b"}],"usage":{"prompt_tokens":7}}`},
		"blanks":            {" " + text(`"a"`) + "\t", text(`"b"`), " " + text(`"c"`)},
		"several lines":     {"{\n\"choices\":[{\"text\":\"a\"}]}", "{\n\"choices\":[{\"text\":\"b\"}]}"},
		"text before":       {`{"choices":[{"text":"a"}],"x":"y"}`, `{"choices":[{"text":"b"}],"x":"y"}`, `{"choices":[{"text":"b"}],"x":"z"}`},
		"text stands twice": {`{"choices":[{"text":"a","text":"b"}]}`, `{"choices":[{"text":"a","text":"c"}]}`, `{"choices":[{"text":"x","text":"c"}]}`},
		"an error":          {text(`"a"`), `{"error":{"code":"x"}}`, text(`"b"`)},
		"shorter than both": {chunk(`{"text":"aa","y":"aa"}`), chunk(`{"text":"aa"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			var r Repeats
			for i, data := range stream {
				// With room behind it, as in the reader's buffer.
				got, err := r.Event(openAI, nil, append(make([]byte, 0, 2*len(data)+5), data...))
				want, wantErr := openAI.Event(nil, []byte(data))
				if diff := cmp.Diff(strip(want), strip(got), ignoreText); diff != "" || (err == nil) != (wantErr == nil) {
					t.Errorf("event %d, %s: errors %v and %v (-want +got)\n%s", i, data, wantErr, err, diff)
				}
			}
		})
	}
}

// strip leaves the blanks around the data out: they do not matter.
func strip(e Event) Event {
	e.Data = bytes.TrimSpace(e.Data)
	return e
}

func TestRepeatsAreFound(t *testing.T) {
	var r Repeats
	if _, err := r.Event(openAI, nil, []byte(chunk(`{"index":0,"text":"a","finish_reason":null}`))); err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string]bool{
		chunk(`{"index":0,"text":"other","finish_reason":null}`):      true,
		chunk(`{"index":0,"text":"\t\"é","finish_reason":null}`):      true,
		chunk(`{"index":0,"text":"","finish_reason":null}`):           false,
		chunk(`{"index":0,"text":"other","finish_reason":"stop"}`):    false,
		chunk(`{"index":0,"text":"a","x":"b","finish_reason":null}`):  false,
		chunk(`{"index":0,"text":"\u0041","finish_reason":null}`):     false,
		strings.TrimSuffix(chunk(`{"index":0,"text":"a","fin`), "]}"): false,
	} {
		if _, ok := r.repeated([]byte(data)); ok != want {
			t.Errorf("%s is known: %v, want %v", data, ok, want)
		}
	}
	r.Reset()
	if _, ok := r.repeated([]byte(chunk(`{"index":0,"text":"other","finish_reason":null}`))); ok {
		t.Error("an event is known after Reset")
	}
}

// FuzzRepeats compares what is read after another event with what is read alone.
func FuzzRepeats(f *testing.F) {
	f.Add([]byte(chunk(`{"text":"a"}`)), []byte(chunk(`{"text":"b"}`)))
	f.Add([]byte(chunk(`{"text":"a","finish_reason":"stop"}`)), []byte(chunk(`{"text":"b\"","finish_reason":"stop"}`)))
	f.Add([]byte(`{"choices":[{"text":"a","text":"b"}]}`), []byte(`{"choices":[{"text":"a"}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var r Repeats
		_, _ = r.Event(openAI, nil, bytes.Clone(first))
		got, err := r.Event(openAI, nil, bytes.Clone(second))
		want, wantErr := openAI.Event(nil, bytes.Clone(second))
		if diff := cmp.Diff(strip(want), strip(got), ignoreText); diff != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("errors %v and %v (-want +got)\n%s", wantErr, err, diff)
		}
	})
}

func BenchmarkRepeats(b *testing.B) {
	data := []byte(`{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"gpt-41","choices":[{"index":0,"text":" return a + b","logprobs":null,"finish_reason":null}]}`)
	var r Repeats
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Event(openAI, nil, data); err != nil {
			b.Fatal(err)
		}
	}
}
