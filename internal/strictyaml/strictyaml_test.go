package strictyaml

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type document struct {
	Name  string   `json:"name"`
	Count int      `json:"count"`
	Wait  Duration `json:"wait"`
	Items []struct {
		Secret string `json:"secret"`
	} `json:"items"`
}

type Duration time.Duration

func TestDecode(t *testing.T) {
	var got document
	if err := Decode([]byte("name: a\ncount: 3\nitems:\n- {secret: b}\n"), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "a" || got.Count != 3 || len(got.Items) != 1 || got.Items[0].Secret != "b" {
		t.Errorf("decoded %+v", got)
	}
}

// TestDecodeRefuses also holds that no value is quoted: each has "hunter".
func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"name: hunter\nnmae: hunter\ncuont: 1", `unknown field "nmae"`},
		{"name: hunter\nnmae: hunter\ncuont: 1", `unknown field "cuont"`},
		{"Name: hunter", `unknown field "Name"`},
		{"items: [{secret: hunter, sceret: hunter}]", `unknown field "items[0].sceret"`},
		{"name: hunter\nname: hunter2", `the field "name" stands twice`},
		{"items:\n- secret: hunter\n bad", "near line"},
		{"name: *hunter", "it is neither YAML nor JSON"},
		{"name: \"hunter", "it is neither YAML nor JSON"},
		{"name: !!int hunter", "it is neither YAML nor JSON"},
		{"items: [{[a]: hunter}]", "it is neither YAML nor JSON"},
		{"\t- hunter", "it is neither YAML nor JSON"},
		{"name: [hunter]", "name: is a list; it must be a string"},
		{"name: {a: hunter}", "name: is an object; it must be a string"},
		{"name: n", "name: is a bool; it must be a string; unless it is in quotes YAML reads y, n,"},
		{"name: 7", "name: is a number; it must be a string"},
		{"count: hunter", "count: is a string; it must be a whole number"},
		{"count: 7.25", "count: is a number that does not fit; it must be a whole number"},
		{"wait: hunter", "wait: is a string; it must be a duration, such as"},
		{"items: hunter", "items: is a string; it must be a list"},
		{"items: [hunter]", "items[0]: is a string; it must be an object"},
		{"hunter", "it is empty, or no object"},
		{"[hunter]", "it is empty, or no object"},
	} {
		err := Decode([]byte(tc.text), new(document))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want one with %q", tc.text, err, tc.want)
			continue
		}
		if strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "7.25") {
			t.Errorf("%q: error %q quotes the value", tc.text, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: a\nitems: [{secret: b}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second document
		err := Decode(data, &first)
		if again := Decode(data, &second); (err == nil) != (again == nil) || err == nil && !reflect.DeepEqual(first, second) {
			t.Fatalf("decoded twice: %+v, %v and %+v, %v", first, err, second, again)
		}
	})
}

func TestOneDocument(t *testing.T) {
	for _, tc := range []struct {
		text string
		one  bool
	}{
		{"", true},
		{"a: 1", true},
		{"---\na: 1\n", true},
		{"%YAML 1.2\n# why\n---\na: 1\n", true},
		{"a: ---\nb: --- x\n", true},
		{"a: |\n  ---\n", true},
		{"----: 1\n---x: 2\n", true},
		{"a: 1\n---\nb: 2\n", false},
		{"a: 1\r\n---\r\nb: 2\r\n", false},
		{"--- {a: 1}\n--- {b: 2}", false},
		{"{\"a\": 1}\n---", false},
	} {
		if err := oneDocument([]byte(tc.text)); (err == nil) != tc.one {
			t.Errorf("%q: %v, want one document: %v", tc.text, err, tc.one)
		}
	}
}
