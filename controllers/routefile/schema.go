package routefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ghostline-dev/ghostline/config/crd"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// schema is the CompletionRoute's as an API server uses it, by the same code.
type schema struct {
	structural *structuralschema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

func newSchema() (*schema, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.CompletionRoutes(), &definition); err != nil {
		return nil, fmt.Errorf("the CompletionRoute's definition: %w", err)
	}
	var props apiextensions.JSONSchemaProps
	from := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(from, &props, nil); err != nil {
		return nil, fmt.Errorf("the CompletionRoute's schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("the CompletionRoute's schema: %w", err)
	}
	openAPI, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("the CompletionRoute's schema: %w", err)
	}
	return &schema{structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit sets defaults in an object, and returns what an API server would refuse it
// for: one line a problem.
func (s *schema) admit(ctx context.Context, object map[string]any) error {
	var problems []error
	unknown := pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		problems = append(problems, fmt.Errorf("unknown field %q", path))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	refused := s.validate(ctx, object)
	// The rules are gone through in any order.
	slices.SortFunc(refused, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	for _, problem := range refused {
		problems = append(problems, problem)
	}
	return errors.Join(problems...)
}

func (s *schema) validate(ctx context.Context, object map[string]any) field.ErrorList {
	problems := validation.ValidateCustomResource(nil, object, s.openAPI)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	// The rules are written for objects of the right form and size.
	if slices.ContainsFunc(problems, func(e *field.Error) bool {
		return slices.Contains([]field.ErrorType{field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}, e.Type)
	}) {
		return problems
	}
	broken, _ := s.rules.Validate(ctx, nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(problems, broken...)
}
