// Command expressions reads a JSON array of PromQL expressions and writes what each
// of them looks at, so that tests of the main module need no PromQL parser there.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// expression is what is written of each.
type expression struct {
	Error     string     `json:"error,omitempty"` // why it cannot be parsed
	Selectors []selector `json:"selectors"`
	Groupings []grouping `json:"groupings"`
}

// selector is one choice of series.
type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
}

// matcher is one condition on a label, the metric's name aside.
type matcher struct {
	Label string `json:"label"`
	Type  string `json:"type"` // =, !=, =~ or !~
	Value string `json:"value"`
}

// grouping are labels that stand in by, on or group_left, and the metrics that they
// are of.
type grouping struct {
	Labels  []string `json:"labels"`
	Metrics []string `json:"metrics"`
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		fmt.Fprintln(os.Stderr, "standard input is to be a JSON array of expressions:", err)
		os.Exit(1)
	}
	out := make([]expression, len(texts))
	for i, text := range texts {
		out[i] = read(text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(text string) expression {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return expression{Error: err.Error()}
	}
	out := expression{Selectors: selectors(expr)}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			out.Groupings = append(out.Groupings, grouping{n.Grouping, metrics(n.Expr)})
		case *parser.BinaryExpr:
			if match := n.VectorMatching; match != nil && len(match.MatchingLabels) > 0 {
				// Each side has to have them.
				out.Groupings = append(out.Groupings, grouping{match.MatchingLabels, metrics(n.LHS)}, grouping{match.MatchingLabels, metrics(n.RHS)})
			}
			if match := n.VectorMatching; match != nil && len(match.Include) > 0 {
				out.Groupings = append(out.Groupings, grouping{match.Include, metrics(n)})
			}
		}
		return nil
	})
	return out
}

func selectors(expr parser.Node) (found []selector) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		vector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		s := selector{Metric: vector.Name}
		for _, m := range vector.LabelMatchers {
			if m.Name != labels.MetricName {
				s.Matchers = append(s.Matchers, matcher{m.Name, m.Type.String(), m.Value})
			}
		}
		found = append(found, s)
		return nil
	})
	return found
}

// metrics are the names of all metrics in an expression.
func metrics(expr parser.Node) (names []string) {
	for _, s := range selectors(expr) {
		names = append(names, s.Metric)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
