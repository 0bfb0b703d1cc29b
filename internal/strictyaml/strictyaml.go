// Package strictyaml decodes configuration files: YAML (or JSON) in which every
// field must be known and stand there once. Its errors name the field or the
// line, and never quote a value, since a value may be a secret.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

var (
	lineNumber     = regexp.MustCompile(`line \d+`)
	fieldTwice     = regexp.MustCompile(`key "(\w+)" already set`)
	documentMarker = regexp.MustCompile(`^---(\s|$)`)
)

// Decode decodes data into a struct by its json tags. Names match by case. The
// error holds every unknown field, or else the first of any other mistake.
func Decode(data []byte, into any) error {
	unknown, err := DecodeLenient(data, into)
	return errors.Join(err, errors.Join(unknown...))
}

// DecodeLenient is Decode for those who ignore fields that they do not know,
// which are returned. A field that stands twice is an error all the same.
func DecodeLenient(data []byte, into any) (unknown []error, err error) {
	if err := oneDocument(data); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, syntaxError(err)
	}
	if asJSON = bytes.TrimSpace(asJSON); len(asJSON) == 0 || asJSON[0] != '{' {
		return nil, errors.New("it is empty, or no object: fields with values are expected")
	}
	unknown, err = strictjson.UnmarshalStrict(asJSON, into)
	if err != nil {
		return nil, typeError(asJSON, err)
	}
	return unknown, nil
}

// oneDocument is an error if data holds more than one YAML document: the YAML
// library reads the first and never says that there is more.
func oneDocument(data []byte) error {
	begun, number := false, 0
	for line := range bytes.Lines(data) {
		number++
		if marker := documentMarker.Find(line); marker != nil {
			if begun {
				return fmt.Errorf("it holds more than one document: another begins at line %d (---)", number)
			}
			line = line[len(marker):]
		}
		text := bytes.TrimSpace(line)
		begun = begun || len(text) > 0 && text[0] != '#' && text[0] != '%'
	}
	return nil
}

// syntaxError keeps of err only where it is: the YAML library quotes what it
// stumbles over.
func syntaxError(err error) error {
	if field := fieldTwice.FindStringSubmatch(err.Error()); field != nil {
		return fmt.Errorf("the field %q stands twice", field[1])
	}
	const what = "it is neither YAML nor JSON"
	if line := lineNumber.FindString(err.Error()); line != "" {
		return fmt.Errorf("%s: near %s", what, line)
	}
	return errors.New(what)
}

// typeError names the field and the kinds, not Go's types.
func typeError(data []byte, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	path := wrong.Field
	if wrong.Offset > 0 { // not known of a type that decodes itself
		path = pathAt(data, wrong.Offset)
	}
	got, _, quoted := strings.Cut(wrong.Value, " ") // "number 1.5" quotes the number
	switch {
	case quoted:
		got = "number that does not fit"
	case got == "array":
		got = "list"
	}
	want := article(kindName(wrong.Type))
	if got == "bool" && wrong.Type.Kind() == reflect.String {
		want += "; unless it is in quotes YAML reads y, n, yes, no, on and off as true or false"
	}
	return fmt.Errorf("%s: is %s; it must be %s", path, article(got), want)
}

func kindName(t reflect.Type) string {
	if t.Name() == "Duration" {
		return `duration, such as "25m"`
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Struct, reflect.Pointer, reflect.Map:
		return "object"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return t.Kind().String()
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}
