package compile

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"k8s.io/apimachinery/pkg/api/resource"
)

// addMutations adds the mutations in their order. Bad ones stay in until all that is
// wrong with them is found.
func (c *compiler) addMutations() {
	for i := range c.route.Spec.Mutations {
		from := &c.route.Spec.Mutations[i]
		at := place{path: fmt.Sprintf("spec.mutations[%d]", i), mutation: string(from.Name)}
		to := config.Mutation{Name: string(from.Name)}
		if m := from.Match; m != nil {
			to.Match = config.MutationMatch{Models: texts(m.Models), Variants: texts(m.Variants), Clients: clientMatches(m.Clients)}
			if m.SubjectsPercent != nil {
				share := c.percent(&at, at.path+".match.subjectsPercent", m.SubjectsPercent.String())
				to.Match.SubjectsPercent = &share
			}
		}
		for _, h := range from.Headers {
			to.Headers = append(to.Headers, config.HeaderChange{Op: h.Op, Name: h.Name, Value: h.Value})
		}
		for j, b := range from.Body {
			change := config.BodyChange{Op: b.Op, Path: b.Path}
			if b.Value != nil {
				change.Value = c.value(&at, fmt.Sprintf("%s.body[%d].value", at.path, j), b.Value.Raw)
			}
			to.Body = append(to.Body, change)
		}
		c.config.Mutations, c.mutations = append(c.config.Mutations, to), append(c.mutations, at)
	}
}

// value is the JSON of a change, if it is any.
func (c *compiler) value(at *place, path string, raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) {
		c.problem(at, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, path, "is no JSON")
		return nil
	}
	return json.RawMessage(raw)
}

func clientMatches(from []v1alpha1.ClientMatch) []config.ClientMatch {
	var to []config.ClientMatch
	for _, m := range from {
		to = append(to, config.ClientMatch{Name: m.Name, Versions: m.Versions})
	}
	return to
}

// addPolicy adds what is neither a model nor a unit nor a mutation.
func (c *compiler) addPolicy() {
	spec := &c.route.Spec
	for _, r := range spec.Clients {
		c.config.Clients = append(c.config.Clients, config.ClientRule{
			Match:  config.ClientMatch{Name: r.Match.Name, Versions: r.Match.Versions},
			Action: r.Action, Message: r.Message, DryRun: r.DryRun,
		})
	}
	c.addLimits()
	if t := spec.Timeouts; t != nil {
		c.config.Timeouts = config.Timeouts{
			Connect:   c.duration("spec.timeouts.connect", t.Connect),
			ReadBody:  c.duration("spec.timeouts.readBody", t.ReadBody),
			FirstByte: c.duration("spec.timeouts.firstByte", t.FirstByte),
			Idle:      c.duration("spec.timeouts.idle", t.Idle),
			Write:     c.duration("spec.timeouts.write", t.Write),
			Total:     c.duration("spec.timeouts.total", t.Total),
		}
	}
	if o := spec.Objectives; o != nil {
		if o.SuccessPercent != "" {
			c.config.Objectives.SuccessPercent = c.percent(nil, "spec.objectives.successPercent", string(o.SuccessPercent))
		}
		if f := o.FirstByte; f != nil {
			c.config.Objectives.FirstByte = &config.FirstByteObjective{
				Percent: c.percent(nil, "spec.objectives.firstByte.percent", string(f.Percent)),
				Under:   c.duration("spec.objectives.firstByte.under", f.Under),
			}
		}
	}
	if h := c.region.HealthProbe; h != nil {
		path := fmt.Sprintf("spec.regions[%s].healthProbe.interval", c.region.Name)
		c.config.HealthProbe = &config.HealthProbe{Interval: c.duration(path, h.Interval), Prompt: h.Prompt, MaxTokens: int(h.MaxTokens)}
	}
	c.config.TrustedEdges = c.proxy.TrustedEdges
}

func (c *compiler) addLimits() {
	from, to := c.route.Spec.Limits, &c.config.Limits
	if from == nil {
		return
	}
	to.InFlight = int(from.InFlight)
	if from.MaxBodyBytes != nil {
		quantity, err := resource.ParseQuantity(from.MaxBodyBytes.String())
		if err != nil || quantity.Sign() <= 0 {
			c.invalid("spec.limits.maxBodyBytes", "is no number of bytes above 0; it must be such as 1Mi")
		}
		to.MaxBodyBytes = quantity.Value()
	}
	if s := from.PerSubject; s != nil {
		to.PerSubject = config.SubjectLimits{
			InFlight: int(s.InFlight), Sessions: int(s.Sessions), RequestsPerSecond: float64(s.RequestsPerSecond), Burst: int(s.Burst),
		}
	}
}

// percent reads a number that is written as text, since it may have a fraction. The
// config's own check knows the bounds. at is the part that is left out if it is none;
// with nil, nothing can be served.
func (c *compiler) percent(at *place, path, text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		return n
	}
	const message = `is no number; it must be such as 2 or "0.5"`
	if at != nil {
		c.problem(at, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, path, message)
	} else {
		c.invalid(path, message)
	}
	return 0
}

// duration reads a duration; none is the default.
func (c *compiler) duration(path string, text v1alpha1.Duration) config.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		c.invalid(path, "is no duration; it must be a number with a unit, such as 5s or 250ms")
	} else if d == 0 {
		// It would be the default.
		c.invalid(path, "is 0s; it must be above 0s")
	}
	return config.Duration(d)
}
