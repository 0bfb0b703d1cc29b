// Package crd holds the CustomResourceDefinitions, for programs that read objects as
// an API server does.
package crd

import _ "embed"

//go:embed completions.ghostline.dev_completionroutes.yaml
var completionRoutes []byte

// CompletionRoutes is the definition of the CompletionRoute, in YAML.
func CompletionRoutes() []byte { return append([]byte(nil), completionRoutes...) }
