package config

import "errors"

// Problem is one thing that is wrong with a config.
type Problem struct {
	// Path is the field's, such as units[0].url.
	Path string
	// Message says what is wrong and what would be right.
	Message string
}

// Error is the path and the message.
func (p *Problem) Error() string { return p.Path + ": " + p.Message }

// problems collects what is wrong.
type problems []error

// Problems returns the problems that an error of this package holds, in their order,
// and what else it holds, such as a field that is not known; nil if there is nothing.
func Problems(err error) (found []*Problem, rest error) {
	if problem, ok := err.(*Problem); ok {
		return []*Problem{problem}, nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, err
	}
	for _, err := range joined.Unwrap() {
		inner, other := Problems(err)
		found, rest = append(found, inner...), errors.Join(rest, other)
	}
	return found, rest
}
