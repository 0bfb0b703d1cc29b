package jsonedit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name, object string
		set          []Member
		drop         []string
		want         string
	}{
		{"nothing", `{"a":1}`, nil, nil, `{"a":1}`},
		{"empty object", `{}`, []Member{{"a", "1"}}, nil, `{"a":1}`},
		{"set replaces", `{"a":1,"b":2}`, []Member{{"b", "3"}}, nil, `{"b":3,"a":1}`},
		{"every copy is replaced", `{"a":1,"a":2}`, []Member{{"a", "3"}}, nil, `{"a":3}`},
		{"escaped names are the same names", `{"\u0061":1,"c":1.50}`, []Member{{"a", "2"}}, nil, `{"a":2,"c":1.50}`},
		{"names keep their escapes", `{"\"\n":1}`, []Member{{"a", "2"}}, nil, `{"a":2,"\"\n":1}`},
		{"drop", `{"a":1,"b":2,"c":3}`, nil, []string{"a", "c", "x"}, `{"b":2}`},
		{"the rest is untouched", `{ "n" : 1e400 , "s" : "\ud83e\udd89" , "o" : { "model" : 1 } }`, []Member{Set("model", "m")}, nil,
			`{"model":"m","n":1e400,"s":"\ud83e\udd89","o":{ "model" : 1 }}`},
		{"text is escaped", `{}`, []Member{Set("a", "\"\n")}, nil, `{"a":"\"\n"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(Apply([]byte(tc.object), tc.set, tc.drop...)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

var objects = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":"\\","b":"\"","c":"\\\""}`, `{"":{"":[{},[],"}",null]},"x":[1,2,[3,"]"]],"y":true}`,
	` { "a" : -1.5e3 , "b" : [ ] , "c" : { "d" : "é\u00e9" } } `, `{"a\\":1,"\u0061":2}`,
}

// FuzzMembers compares with another reader of JSON.
func FuzzMembers(f *testing.F) {
	for _, object := range objects {
		f.Add([]byte(object))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		for range Members(object) { // whatever it is, it ends
		}
		if !json.Valid(object) || !gjson.ParseBytes(object).IsObject() {
			return
		}
		var want []string
		gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
			want = append(want, key.Str, value.Raw)
			return true
		})
		var got []string
		for name, value := range Members(object) {
			got = append(got, string(name), string(value))
		}
		if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
			t.Errorf("members of %q: got %q, want %q", object, got, want)
		}
		if applied := Apply(object, nil); !json.Valid(applied) {
			t.Errorf("Apply made %q of %q", applied, object)
		}
	})
}

// FuzzElements compares with another reader of JSON.
func FuzzElements(f *testing.F) {
	for _, array := range []string{`[]`, ` [ ] `, `[1,"]",{"a":[1]},[[]],null , true ]`} {
		f.Add([]byte(array))
	}
	f.Fuzz(func(t *testing.T, array []byte) {
		for range Elements(array) { // whatever it is, it ends
		}
		var want []json.RawMessage
		if json.Unmarshal(array, &want) != nil || !gjson.ParseBytes(array).IsArray() {
			return
		}
		i := 0
		for element := range Elements(array) {
			if i >= len(want) || string(element) != string(want[i]) {
				t.Fatalf("element %d of %q: got %q", i, array, element)
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%d elements of %q, want %d", i, array, len(want))
		}
	})
}
