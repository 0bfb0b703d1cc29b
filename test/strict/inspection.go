package strict

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// inspection is one request being taken apart.
type inspection struct {
	got     *Request
	options Options
}

// violate notes something that the reference does not allow.
func (in *inspection) violate(format string, args ...any) {
	in.got.Violations = append(in.got.Violations, fmt.Sprintf(format, args...))
}

// headers notes headers that no reference has: whatever else arrives leaked from
// a client. Credentials are looked at by [inspection.bearer] and [inspection.apiKey].
func (in *inspection) headers() {
	for _, name := range slices.Sorted(maps.Keys(in.got.Header)) {
		values := in.got.Header[name]
		switch name {
		case "Content-Type", "Content-Length", "Authorization", "Api-Key":
			if len(values) > 1 {
				in.violate("header %s is there %d times", name, len(values))
			}
		case "Accept-Encoding":
			for _, coding := range strings.Split(strings.Join(values, ","), ",") {
				if name, _, _ := strings.Cut(coding, ";"); strings.TrimSpace(name) != "identity" {
					in.violate("Accept-Encoding offers %q: the answer may come compressed, in one burst", strings.TrimSpace(name))
				}
			}
		case "Accept", "User-Agent", "X-Request-Id", "Traceparent", "Tracestate":
		default:
			in.violate("header %s is not of the API", name)
		}
	}
}

// at reports whether the request is a POST to one of the paths, without a query.
func (in *inspection) at(paths ...string) bool {
	if !slices.Contains(paths, in.got.Path) {
		in.violate("path %s is not of the API", in.got.Path)
		return false
	}
	if in.got.Method != http.MethodPost {
		in.violate("method is %s; it must be POST", in.got.Method)
		return false
	}
	for name := range in.got.Query {
		in.violate("query parameter %s is not of the API", name)
	}
	return true
}

// json reports whether the body is said to be JSON.
func (in *inspection) json() bool {
	media, parameters, err := mime.ParseMediaType(in.got.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		in.violate("Content-Type is %q; it must be application/json", in.got.Header.Get("Content-Type"))
		return false
	}
	return true
}

// bearer reports whether the credential came as a bearer token, and is the one
// of the options.
func (in *inspection) bearer() bool {
	if in.got.Header.Get("Api-Key") != "" {
		in.violate("header Api-Key is not of the API")
	}
	sent := in.got.Header.Get("Authorization")
	if in.options.Key == "" {
		if sent != "" {
			in.violate("a credential was sent to a provider without one")
		}
		return true
	}
	scheme, key, _ := strings.Cut(sent, " ")
	switch {
	case sent == "":
		in.violate("no credential: Authorization is missing")
	case scheme != "Bearer":
		in.violate("Authorization is not of the form Bearer KEY")
	case key != in.options.Key:
		in.violate("the credential is not the provider's")
	default:
		return true
	}
	return false
}

// apiKey is the same for the header api-key, with which nothing else may come.
func (in *inspection) apiKey() bool {
	sent := in.got.Header.Get("Api-Key")
	switch {
	case in.got.Header.Get("Authorization") != "":
		in.violate("Authorization was sent beside or instead of api-key")
	case sent == "":
		in.violate("no credential: api-key is missing")
	case sent != in.options.Key:
		in.violate("the credential is not the provider's")
	default:
		return true
	}
	return false
}

// model reports whether the request names the model that there is.
func (in *inspection) model() bool {
	if in.got.Model != in.options.Model {
		in.violate("model is %q; there is only %q", in.got.Model, in.options.Model)
		return false
	}
	return true
}

// body holds the body against fields, and returns the problems that the provider
// refuses. A provider that is lenient skips fields that it does not know.
func (in *inspection) body(fields []field, lenient bool) []problem {
	var refused []problem
	for _, p := range examine(in.got.Body, fields) {
		switch {
		case p.trouble == unknown && lenient:
			in.got.Unknown = append(in.got.Unknown, p.name)
		case p.trouble == twice: // JSON parsers take the last one
			in.violate("%v", p)
		default:
			in.violate("%v", p)
			refused = append(refused, p)
		}
	}
	return refused
}
