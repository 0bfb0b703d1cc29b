package compile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// encode writes a config as compact JSON, which is YAML as well: proxies read both.
func encode(c *config.Config) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // ranges such as <1.40.0 are to be read by people
	if err := encoder.Encode(c); err != nil {
		return nil, err
	}
	return escapeForYAML(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// escapeForYAML escapes the characters that JSON may hold as they are, but which YAML
// refuses or takes for the end of a line. In JSON they stand only in strings.
func escapeForYAML(data []byte) []byte {
	if !bytes.ContainsFunc(data, isNotYAML) {
		return data
	}
	var out bytes.Buffer
	for _, r := range string(data) {
		if isNotYAML(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// isNotYAML says whether a character must be escaped (YAML 1.2, sections 5.1 and 5.4);
// encoding/json escapes those below a space.
func isNotYAML(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
}
