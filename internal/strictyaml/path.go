package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// pathReader walks JSON text and remembers the path of the value that it is at.
// The decoder's own errors do not say which entry of a list they are about.
type pathReader struct {
	*json.Decoder
	offset int64 // where to stop
}

// pathAt is the path of the value in data, valid JSON, that ends or begins at
// offset, as a decoder counts it.
func pathAt(data []byte, offset int64) string {
	r := pathReader{json.NewDecoder(bytes.NewReader(data)), offset}
	path, _ := r.value("")
	return path
}

// value reads one value whose path is given, and returns the path at which to
// stop and whether that was reached.
func (r pathReader) value(path string) (string, bool) {
	token, err := r.Token()
	if err != nil || r.InputOffset() >= r.offset {
		return path, true
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return path, false
	}
	for i := 0; r.More(); i++ {
		inner := fmt.Sprintf("%s[%d]", path, i)
		if delim == '{' {
			if inner, err = r.name(path); err != nil {
				return path, true
			}
		}
		if at, found := r.value(inner); found {
			return at, true
		}
	}
	_, err = r.Token() // the end of the object or list
	return path, err != nil
}

// name reads a member's name and returns the member's path.
func (r pathReader) name(path string) (string, error) {
	token, err := r.Token()
	if err != nil || path == "" {
		return fmt.Sprint(token), err
	}
	return fmt.Sprintf("%s.%v", path, token), nil
}
