// Package routefile reads a CompletionRoute and what it refers to from YAML files. It
// sets the defaults and makes the checks that an API server would, by the same code,
// so that a mistake shows before `kubectl apply`.
package routefile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	corev1 "k8s.io/api/core/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// KindRoute is the kind of a CompletionRoute.
const KindRoute = "CompletionRoute"

// File is what stands in a file.
type File struct {
	Name string
	Data []byte
}

// Content is what files hold.
type Content struct {
	Route      *v1alpha1.CompletionRoute
	References compile.References
}

// header is what every object begins with.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// document is one object of a file.
type document struct {
	header
	where string
	json  []byte
}

// HasRoute says whether a file holds a CompletionRoute, be it right or wrong.
func HasRoute(data []byte) bool {
	documents, err := split(File{Data: data})
	for _, d := range documents {
		if d.Kind == KindRoute {
			return true
		}
	}
	return err != nil && bytes.Contains(data, []byte("kind: "+KindRoute))
}

// Read reads the one CompletionRoute that the files hold, and the Secrets and
// ConfigMaps of its namespace. Objects of other kinds are passed over. The error has
// one line for each problem; with it comes what could be read all the same, or nil.
func Read(ctx context.Context, files ...File) (*Content, error) {
	var (
		route *document
		rest  []document
		errs  []error
	)
	for _, file := range files {
		documents, err := split(file)
		errs = append(errs, err)
		for _, d := range documents {
			switch {
			case d.Kind != KindRoute:
				rest = append(rest, d)
			case route != nil:
				errs = append(errs, fmt.Errorf("%s: is a second CompletionRoute, after that in %s; give one", d.where, route.where))
			default:
				route = &d
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if route == nil {
		return nil, errors.New("there is no CompletionRoute in the files")
	}
	content := &Content{References: compile.References{Secrets: map[string]map[string][]byte{}, ConfigMaps: map[string]map[string]string{}}}
	decoded, err := decodeRoute(ctx, route)
	errs = append(errs, err)
	for _, d := range rest {
		// Who has no namespace gets that of the command that applies it.
		if d.Metadata.Namespace == route.Metadata.Namespace || d.Metadata.Namespace == "" || route.Metadata.Namespace == "" {
			errs = append(errs, content.add(d))
		}
	}
	if content.Route = decoded; decoded == nil {
		content = nil
	}
	return content, errors.Join(errs...)
}

// split returns the documents of a file.
func split(file File) ([]document, error) {
	var documents []document
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(file.Data)))
	for number := 1; ; number++ {
		data, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		where := fmt.Sprintf("%s, document %d", file.Name, number)
		if err != nil {
			return documents, fmt.Errorf("%s: %w", where, err)
		}
		d := document{where: where}
		if d.json, err = yaml.YAMLToJSONStrict(data); err != nil {
			// The library quotes what it stumbles over, which may be a secret.
			return documents, fmt.Errorf("%s: is not YAML, or has a field twice", where)
		}
		if string(d.json) == "null" {
			continue // only comments
		}
		if err := json.Unmarshal(d.json, &d.header); err != nil {
			return documents, fmt.Errorf("%s: is no object with apiVersion, kind and metadata", where)
		}
		documents = append(documents, d)
	}
}

func decodeRoute(ctx context.Context, d *document) (*v1alpha1.CompletionRoute, error) {
	if want := v1alpha1.GroupVersion.String(); d.APIVersion != want {
		return nil, fmt.Errorf("%s: apiVersion is %q; it must be %s", d.where, d.APIVersion, want)
	}
	if d.Metadata.Name == "" {
		return nil, fmt.Errorf("%s: metadata.name is missing", d.where)
	}
	var object map[string]any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(d.json, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", d.where, err)
	}
	schema, err := newSchema()
	if err != nil {
		return nil, err
	}
	refused := schema.admit(ctx, object)
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.where, err)
	}
	route := new(v1alpha1.CompletionRoute)
	unknown, err := strictjson.UnmarshalStrict(data, route) // of metadata
	if err != nil {
		route = nil
		if refused == nil {
			refused = err
		}
	}
	return route, prefixed(d.where, errors.Join(refused, errors.Join(unknown...)))
}

// prefixed puts a file's name before each line.
func prefixed(where string, err error) error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", where, err)
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		errs = append(errs, prefixed(where, err))
	}
	return errors.Join(errs...)
}

// add adds what a Secret or a ConfigMap holds.
func (c *Content) add(d document) error {
	if d.APIVersion != "v1" {
		return nil
	}
	switch d.Kind {
	case compile.KindSecret:
		var secret corev1.Secret
		// The error could quote a value.
		if unknown, err := strictjson.UnmarshalStrict(d.json, &secret); err != nil || len(unknown) > 0 {
			return fmt.Errorf("%s: is no Secret; data must hold texts in base64, stringData plain texts", d.where)
		}
		entries := secret.Data
		if entries == nil {
			entries = map[string][]byte{}
		}
		for key, value := range secret.StringData {
			entries[key] = []byte(value)
		}
		c.References.Secrets[secret.Name] = entries
	case compile.KindConfigMap:
		var configMap corev1.ConfigMap
		if unknown, err := strictjson.UnmarshalStrict(d.json, &configMap); err != nil || len(unknown) > 0 {
			return fmt.Errorf("%s: is no ConfigMap; data must hold texts", d.where)
		}
		c.References.ConfigMaps[configMap.Name] = configMap.Data
	}
	return nil
}
