package jsonedit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Path names a member of an object, or of an object within it: the names from the
// outside in. A number in it is a member's name like any other, never an index.
type Path []string

var errNoName = errors.New("has an empty name; it must be names with a dot between them")

// ParsePath reads names with a dot between them. Of a name, \. is a dot and \\ a
// backslash.
func ParsePath(text string) (Path, error) {
	var path Path
	var name strings.Builder
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == '.':
			if name.Len() == 0 {
				return nil, errNoName
			}
			path = append(path, name.String())
			name.Reset()
		case text[i] != '\\':
			name.WriteByte(text[i])
		case i+1 < len(text) && (text[i+1] == '.' || text[i+1] == '\\'):
			i++
			name.WriteByte(text[i])
		default:
			return nil, errors.New(`has a backslash that is neither \. for a dot nor \\ for a backslash`)
		}
	}
	return path, nil
}

// String is what ParsePath reads.
func (p Path) String() string {
	names := make([]string, len(p))
	for i, name := range p {
		names[i] = escapeName.Replace(name)
	}
	return strings.Join(names, ".")
}

var escapeName = strings.NewReplacer(`\`, `\\`, `.`, `\.`)

// Find returns the raw value at path, a part of object; nil if it is missing, or
// an object on the way there is missing or null. It is an error if something else
// than an object is on the way, or a name of the path stands twice: readers of
// JSON differ on which of the two counts.
func Find(object []byte, path Path) ([]byte, error) {
	value := trimBlanks(object)
	for i := range path {
		if isNull(value) {
			return nil, nil
		}
		if !isObject(value) {
			return nil, fmt.Errorf("%s is no object", path[:i])
		}
		var err error
		if value, err = single(value, path[:i+1]); value == nil {
			return nil, err
		}
	}
	return value, nil
}

// single is the value of the object's one member that the path's last name is
// of; nil if there is none.
func single(object []byte, path Path) (value []byte, err error) {
	for name, v := range Members(object) {
		if string(name) != path[len(path)-1] {
			continue
		}
		if value != nil {
			return nil, fmt.Errorf("%s stands twice", path)
		}
		value = v
	}
	return value, nil
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

func isNull(value []byte) bool { return string(value) == "null" }

// Put returns a copy of object that has the value, JSON, at path, and else is the
// same byte for byte. Objects on the way are made if they are missing or null; it
// is an error if something else is there. A member that is new comes last; one
// that stands twice stands once afterwards.
func Put(object []byte, path Path, value []byte) ([]byte, error) {
	return change(trimBlanks(object), path, 0, value)
}

// Drop returns a copy of object without the value at path, as Put.
func Drop(object []byte, path Path) ([]byte, error) {
	return change(trimBlanks(object), path, 0, nil)
}

// change is Put, or Drop for the value nil, for the object at path[:depth].
func change(object []byte, path Path, depth int, value []byte) ([]byte, error) {
	if !isObject(object) {
		return nil, fmt.Errorf("%s is no object", path[:depth])
	}
	if depth == len(path)-1 {
		return rewrite(object, path[depth], value), nil
	}
	inner, err := single(object, path[:depth+1])
	switch {
	case err != nil:
		return nil, err
	case inner != nil && !isNull(inner):
		inner, err = change(inner, path, depth+1, value)
	case value == nil: // nothing is there to be dropped
		return object, nil
	default:
		inner = nest(path[depth+1:], value)
	}
	if err != nil {
		return nil, err
	}
	return rewrite(object, path[depth], inner), nil
}

// nest is the object that has only the value at path.
func nest(path Path, value []byte) []byte {
	var out []byte
	for _, name := range path {
		out = append(gjson.AppendJSONString(append(out, '{'), name), ':')
	}
	out = append(out, value...)
	for range path {
		out = append(out, '}')
	}
	return out
}

// rewrite returns a copy of object in which the first member of that name has the
// value and the others are gone; all are for the value nil. What stands between
// members stays with the one behind it.
func rewrite(object []byte, name string, value []byte) []byte {
	out := make([]byte, 0, len(object)+len(name)+len(value)+len(`,"":`))
	put := value == nil
	first, end := 0, len("{") // where the first member begins, and the last one ends
	for rawName, v := range members(object) {
		if len(v) == 0 {
			break // this is no JSON
		}
		from, to := offset(object, rawName), offset(object, v)+len(v)
		between := object[end:from]
		if first == 0 {
			first = from
		}
		end = to
		isIt := string(unquote(rawName)) == name
		if isIt && put {
			continue
		}
		if len(out) == 0 { // what is now first begins as the first did
			between = object[:first]
		}
		out = append(out, between...)
		if !isIt {
			out = append(out, object[from:to]...)
			continue
		}
		out, put = append(append(out, object[from:to-len(v)]...), value...), true
	}
	if len(out) == 0 {
		out = append(out, '{')
	} else if !put {
		out = append(out, ',')
	}
	if !put {
		out = append(append(gjson.AppendJSONString(out, name), ':'), value...)
	}
	return append(out, object[end:]...)
}

// offset is where in text a part of it begins. Both end with the same array, so
// their capacities tell.
func offset(text, part []byte) int { return cap(text) - cap(part) }

// Append returns a copy of an array with one more element, at its end.
func Append(array, element []byte) []byte {
	out := make([]byte, 0, len(array)+len(element)+len(","))
	end := 0 // of the last element
	for e := range Elements(array) {
		end = offset(array, e) + len(e)
	}
	if end > 0 {
		out = append(append(out, array[:end]...), ',')
	} else {
		end = bytes.IndexByte(array, '[') + 1
		out = append(out, array[:end]...)
	}
	return append(append(out, element...), array[end:]...)
}
