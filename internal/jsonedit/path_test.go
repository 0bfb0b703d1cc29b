package jsonedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	for text, want := range map[string]Path{
		"max_tokens":       {"max_tokens"},
		"logit_bias.50256": {"logit_bias", "50256"},
		`a\.b.c\\`:         {"a.b", `c\`},
		`\\\..é."`:         {`\.`, "é", `"`},
		" a .b":            {" a ", "b"},
	} {
		got, err := ParsePath(text)
		if err != nil || !slices.Equal(got, want) || got.String() != text {
			t.Errorf("%q: %q, %v, which is written %q; want %q", text, got, err, got, want)
		}
	}
	for _, text := range []string{"", ".", "a.", ".a", "a..b", `a\`, `a\b`, `a.\n`} {
		if got, err := ParsePath(text); err == nil {
			t.Errorf("%q is the path %q", text, got)
		}
	}
}

const nested = ` { "a" : 1 , "o" : { "b" : [ 1 , 2 ] , "\u0063" : null } , "t" : "x" , "d" : { } , "d" : 2 }`

func TestFind(t *testing.T) {
	for _, tc := range []struct{ path, want, err string }{
		{"a", "1", ""},
		{"o.b", "[ 1 , 2 ]", ""},
		{"o.c", "null", ""},
		{"o.c.x", "", ""},
		{"x", "", ""},
		{"x.y.z", "", ""},
		{"o.1", "", ""},
		{"o.b.0", "", "o.b is no object"},
		{"t.length", "", "t is no object"},
		{"d", "", "d stands twice"},
		{"d.x", "", "d stands twice"},
	} {
		got, err := Find([]byte(nested), parsed(t, tc.path))
		if string(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s is %q, %v; want %q, %s", tc.path, got, err, tc.want, tc.err)
		}
	}
}

func TestPut(t *testing.T) {
	for _, tc := range []struct{ object, path, value, want, err string }{
		{`{}`, "a", `1`, `{"a":1}`, ""},
		{` { } `, "a", `1`, `{"a":1 } `, ""},
		{`{}`, "a.b.50256", `-100`, `{"a":{"b":{"50256":-100}}}`, ""},
		{`{"a":{}}`, "a.b", `1`, `{"a":{"b":1}}`, ""},
		{`{"a":null}`, "a.b", `1`, `{"a":{"b":1}}`, ""},
		{`{ "a" : 1 , "b" : 2 }`, "a", `[]`, `{ "a" : [] , "b" : 2 }`, ""},
		{`{ "a" : 1 , "b" : 2 }`, "b", `[]`, `{ "a" : 1 , "b" : [] }`, ""},
		{`{ "a" : 1 , "b" : 2 }`, "c", `[]`, `{ "a" : 1 , "b" : 2,"c":[] }`, ""},
		{`{"a":1, "b":2, "a":3, "a":4, "c":5}`, "a", `6`, `{"a":6, "b":2, "c":5}`, ""},
		{`{"b":2, "\u0061":3, "a":4}`, "a", `6`, `{"b":2, "\u0061":6}`, ""},
		{`{"a":1}`, "\"\n", `2`, `{"a":1,"\"\n":2}`, ""},
		{`{"s":"\ud83e\udd89","n":1e400,"o":{"a":1.50, "x":[ ]}}`, "o.a", `2`, `{"s":"\ud83e\udd89","n":1e400,"o":{"a":2, "x":[ ]}}`, ""},
		{`{"a":[1]}`, "a.0", `1`, "", "a is no object"},
		{`{"a":{"b":""}}`, "a.b.c", `1`, "", "a.b is no object"},
		{`{"a":{},"a":{}}`, "a.b", `1`, "", "a stands twice"},
	} {
		got, err := Put([]byte(tc.object), parsed(t, tc.path), []byte(tc.value))
		if string(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s in %s: %s, %v; want %s, %s", tc.path, tc.object, got, err, tc.want, tc.err)
		}
	}
}

func TestDrop(t *testing.T) {
	for _, tc := range []struct{ object, path, want, err string }{
		{`{}`, "a", `{}`, ""},
		{`{"a":1}`, "a", `{}`, ""},
		{`{ "a" : 1 }`, "a", `{ }`, ""},
		{`{ "a" : 1 , "b" : 2 }`, "a", `{ "b" : 2 }`, ""},
		{`{ "a" : 1 , "b" : 2 }`, "b", `{ "a" : 1 }`, ""},
		{`{"a":1, "b":2,  "c":3}`, "b", `{"a":1,  "c":3}`, ""},
		{`{"a":1,"b":2,"a":3}`, "a", `{"b":2}`, ""},
		{`{"a":1,"a":3}`, "a", `{}`, ""},
		{`{"a":{"b":{"c":1}}}`, "a.b.c", `{"a":{"b":{}}}`, ""},
		{`{"a":{"b":1}}`, "a.x.y", `{"a":{"b":1}}`, ""},
		{`{"a":null}`, "a.x", `{"a":null}`, ""},
		{`{"a":1}`, "a.x", "", "a is no object"},
		{`{"a":{},"a":{}}`, "a.b", "", "a stands twice"},
	} {
		got, err := Drop([]byte(tc.object), parsed(t, tc.path))
		if string(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s of %s: %s, %v; want %s, %s", tc.path, tc.object, got, err, tc.want, tc.err)
		}
	}
}

func TestAppend(t *testing.T) {
	for array, want := range map[string]string{
		`[]`: `["x"]`, ` [ ] `: ` ["x" ] `, `[1]`: `[1,"x"]`, `[ 1 , [2] ]`: `[ 1 , [2],"x" ]`, `["]", "x"]`: `["]", "x","x"]`,
	} {
		if got := string(Append([]byte(array), []byte(`"x"`))); got != want {
			t.Errorf("%s became %s, want %s", array, got, want)
		}
	}
}

func parsed(t *testing.T, text string) Path {
	t.Helper()
	path, err := ParsePath(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return path
}

// FuzzPath holds that what is put and dropped is what another library makes of the
// decoded object, and that all else stays as it is written.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"a", "a.b", "o.b.0", "d", "x.y.z", `"`, `\..\\`} {
		for _, object := range append([]string{nested}, objects...) {
			f.Add([]byte(object), path, []byte(`{"v": [1]}`))
		}
	}
	f.Fuzz(func(t *testing.T, object []byte, text string, value []byte) {
		path, err := ParsePath(text)
		if err != nil {
			return
		}
		if path.String() != text {
			t.Errorf("the path %q is written %q", text, path)
		}
		if !json.Valid(object) || !isObject(trimBlanks(object)) || !json.Valid(value) || strings.ToValidUTF8(text, "") != text {
			_, _ = Find(object, path) // whatever it is, they end
			_, _ = Put(object, path, value)
			_, _ = Drop(object, path)
			return
		}
		value = bytes.TrimSpace(value)
		before := bytes.Clone(object)
		put, putErr := Put(object, path, value)
		dropped, dropErr := Drop(object, path)
		found, findErr := Find(object, path)
		if !bytes.Equal(object, before) {
			t.Fatalf("the object was changed to %q", object)
		}
		want, wantErr := decodedPut(decoded(object), path, decoded(value))
		if twice := isTwice(putErr); !twice {
			check(t, "put", put, putErr, want, wantErr)
			checkRest(t, object, put, path[0])
		}
		if !isTwice(dropErr) {
			want, wantErr := decodedDrop(decoded(object), path)
			check(t, "drop", dropped, dropErr, want, wantErr)
			checkRest(t, object, dropped, path[0])
		}
		if findErr == nil && found != nil {
			if again, err := Put(object, path, found); err != nil || !bytes.Equal(again, trimBlanks(object)) {
				t.Errorf("putting what is at %q of %q made %q, %v", path, object, again, err)
			}
		}
		if putErr == nil {
			if back, err := Find(put, path); err != nil || !bytes.Equal(back, value) {
				t.Errorf("put %q at %q of %q, found %q, %v", value, path, object, back, err)
			}
		}
	})
}

func isTwice(err error) bool { return err != nil && strings.HasSuffix(err.Error(), "stands twice") }

func check(t *testing.T, what string, got []byte, gotErr error, want any, wantErr error) {
	t.Helper()
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%s: %q, %v; want %v, %v", what, got, gotErr, want, wantErr)
	}
	if gotErr == nil && !reflect.DeepEqual(decoded(got), want) {
		t.Fatalf("%s: %q; want %v", what, got, want)
	}
}

// checkRest compares all members but those of one name, as they are written.
func checkRest(t *testing.T, before, after []byte, name string) {
	t.Helper()
	if after == nil {
		return
	}
	if got, want := rest(after, name), rest(before, name); !slices.Equal(got, want) {
		t.Errorf("beside %q, %q became %q", name, want, got)
	}
}

func rest(object []byte, name string) (out []string) {
	for rawName, value := range members(object) {
		if string(unquote(rawName)) != name {
			out = append(out, string(rawName), string(value))
		}
	}
	return out
}

func decoded(data []byte) (out any) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

var errNoObject = errors.New("no object")

func decodedPut(in any, path Path, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	if in == nil {
		in = map[string]any{}
	}
	object, ok := in.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	inner, err := decodedPut(object[path[0]], path[1:], value)
	object[path[0]] = inner
	return object, err
}

func decodedDrop(in any, path Path) (any, error) {
	if in == nil {
		return nil, nil
	}
	object, ok := in.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	if len(path) == 1 {
		delete(object, path[0])
		return object, nil
	}
	inner, there := object[path[0]]
	if !there {
		return object, nil
	}
	inner, err := decodedDrop(inner, path[1:])
	object[path[0]] = inner
	return object, err
}
