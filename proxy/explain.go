package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/textproto"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
	"github.com/prometheus/client_golang/prometheus"
)

// Question is a completion request, and the config of a proxy that it might meet.
type Question struct {
	Config *config.Config // valid
	// Path is the request's, such as /v1/completions.
	Path string
	// Header has the client's, with names in their canonical form.
	Header map[string][]string
	Body   []byte
	// Subject is the user whom the token would name.
	Subject string
}

// Explanation is what a proxy would do with a request while all units are well,
// none is busy, and the user is within all limits. Tokens, denied subjects and
// credentials are not looked at.
type Explanation struct {
	// Refusal is the answer, if the request would reach no unit.
	Refusal *ExplainedRefusal `json:"refusal,omitempty"`
	// RequestID is the client's, or a new one.
	RequestID string `json:"requestId"`
	Subject   string `json:"subject"`
	// Clients are the programs that the request names, the most telling first.
	Clients []ExplainedClient `json:"clients,omitempty"`
	// ClientRule is the rule that holds, if any; DryRun one that would hold in its
	// place, but for its dryRun.
	ClientRule *ExplainedRule `json:"clientRule,omitempty"`
	DryRun     *ExplainedRule `json:"dryRun,omitempty"`
	Model      string         `json:"model,omitempty"`
	// Variant is the one that is drawn; the unit that is sent to may serve one of
	// its fallbacks.
	Variant string `json:"variant,omitempty"`
	// Units are those that would be tried, in their order.
	Units []ExplainedUnits `json:"units,omitempty"`
	// Sent is what the first unit gets that can be asked, and Mutations what the
	// config's mutations did to it, in their order.
	Mutations []ExplainedMutation `json:"mutations,omitempty"`
	Sent      *ExplainedSent      `json:"sent,omitempty"`
}

// ExplainedRefusal is an answer that is no completion.
type ExplainedRefusal struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ExplainedClient is a program as it names itself.
type ExplainedClient struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// ExplainedRule is a rule of the config about clients; Index counts from 0.
type ExplainedRule struct {
	Index int `json:"index"`
	config.ClientRule
}

// ExplainedUnits are units of one variant, region and priority: the less loaded of
// two that are drawn from them is tried first.
type ExplainedUnits struct {
	Variant  string   `json:"variant"`
	Region   string   `json:"region"`
	Priority int      `json:"priority"`
	Names    []string `json:"names"`
	// Problems says of units that cannot be asked what of the request their
	// provider cannot do.
	Problems map[string]string `json:"problems,omitempty"`
}

// ExplainedMutation is what a mutation does to the request.
type ExplainedMutation struct {
	Name string `json:"name"`
	// Result is "applied", "unchanged", "not_applicable" or "not_matched".
	Result string `json:"result"`
	// Reason says why it is one of the last two.
	Reason string `json:"reason,omitempty"`
}

// ExplainedSent is a request to a unit.
type ExplainedSent struct {
	Unit string `json:"unit"`
	// URL has no query, which may hold a secret.
	URL string `json:"url"`
	// Headers are sorted by name. The credential is not in them.
	Headers []ExplainedHeader `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// ExplainedHeader is one header field.
type ExplainedHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// credentialMark stands where a unit's credential is.
const credentialMark = "(the unit's credential)"

// uniqueMark stands where a word is that no other request has.
const uniqueMark = "(unique)"

// Explain says what a proxy would do with a request. It goes through the stages
// that serve, without opening a connection or reading a file. An error is about
// the config or the path: then there is nothing to explain.
func Explain(q Question) (*Explanation, error) {
	f, engine, ok := completionForm(q.Path)
	if !ok {
		return nil, fmt.Errorf("the path %q is none of completions: those are /v1/completions, /v1/engines/MODEL/completions and /v1/fim/completions", q.Path)
	}
	metrics, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	p := &proxy{log: slog.New(slog.DiscardHandler), metrics: metrics, unique: func() string { return uniqueMark }}
	p.peers.set(1)
	s, err := p.explainable(q.Config)
	if err != nil {
		return nil, err
	}
	header := textproto.MIMEHeader(q.Header)
	x := &exchange{
		header: header, source: givenBody{bytes.NewReader(q.Body)}, length: int64(len(q.Body)), form: f, engine: engine,
		start: time.Now(), trace: traceContextOf(header), snapshot: s, id: requestID(header.Get("X-Request-Id")),
		claims: &token.Claims{Subject: q.Subject}, phase: phaseReceive,
	}
	out := &Explanation{RequestID: x.id, Subject: q.Subject}
	err = p.explain(x, out)
	out.stages(x)
	if e, ok := errors.AsType[*clientError](err); ok {
		out.Refusal = &ExplainedRefusal{e.status, e.code, e.message}
		return out, nil
	}
	return out, err
}

// explainable is a snapshot whose units have neither credentials nor connections.
func (p *proxy) explainable(cfg *config.Config) (*snapshot, error) {
	s, err := newSnapshot(cfg)
	if err != nil {
		return nil, err
	}
	s.clientCounters = newClientCounters(p.metrics.clients, s.clientRules)
	for i, cfg := range cfg.Units {
		u := p.metrics.newUnit(s.config, cfg)
		if err := u.speak(); err != nil {
			return nil, fmt.Errorf("units[%d]: %w", i, err)
		}
		if cfg.Credential != "" {
			u.credential = credentialMark
		}
		u.endpoint = &endpoint{pool: &upstream.Pool{}, inFlight: new(atomic.Int64), bucket: newBucket(cfg.Capacity)}
		s.units = append(s.units, u)
	}
	s.link()
	(&loader{metrics: p.metrics}).addMutations(s)
	for _, m := range s.mutations {
		if m.problem != "" {
			err = errors.Join(err, errors.New(m.problem))
		}
	}
	return s, err
}

// givenBody is a body that is there.
type givenBody struct{ *bytes.Reader }

func (givenBody) SetReadDeadline(time.Time) error { return nil }

// explain takes the request through the stages up to what the first unit is sent.
func (p *proxy) explain(x *exchange, out *Explanation) error {
	for _, stage := range []func(*exchange) error{p.identifyClient, p.readBody, p.match, p.pickVariant} {
		if err := stage(x); err != nil {
			return err
		}
	}
	x.size = upstream.SizeOf(len(x.body))
	order, err := p.order(x)
	if err != nil {
		return err
	}
	out.Units = explainUnits(order)
	for _, u := range order {
		x.unit, x.variant = u, u.variant
		x.tried = append(x.tried, u)
		if err = p.prepare(x); err == nil {
			out.Sent = explainSent(x)
			return nil
		}
		out.problem(u, err)
	}
	return err
}

// order is the order in which units are picked. Those alike have that of the
// config, since the one that is drawn first may be any.
func (p *proxy) order(x *exchange) ([]*unit, error) {
	picks := &exchange{wanted: x.wanted, size: x.size}
	err := p.pickUnit(picks)
	if err != nil {
		return nil, err
	}
	for ; err == nil; err = p.pickUnit(picks) {
		picks.leaveUnit()
	}
	var order []*unit
	for len(order) < len(picks.tried) {
		first := picks.tried[len(order)]
		for _, alike := range first.variant.alike {
			if slices.Contains(alike, first) {
				order = append(order, alike...)
			}
		}
	}
	return order, nil
}

func explainUnits(order []*unit) (out []ExplainedUnits) {
	for _, u := range order {
		if n := len(out) - 1; n >= 0 && out[n].Variant == u.variant.Name && out[n].Region == u.Region && out[n].Priority == u.Priority {
			out[n].Names = append(out[n].Names, u.Name)
			continue
		}
		out = append(out, ExplainedUnits{Variant: u.variant.Name, Region: u.Region, Priority: u.Priority, Names: []string{u.Name}})
	}
	return out
}

// problem notes why a unit cannot be asked.
func (e *Explanation) problem(u *unit, err error) {
	for i := range e.Units {
		if group := &e.Units[i]; slices.Contains(group.Names, u.Name) {
			if group.Problems == nil {
				group.Problems = map[string]string{}
			}
			group.Problems[u.Name] = causeOf(err).Error()
		}
	}
}

// stages fills in what the stages found out, as far as they came.
func (e *Explanation) stages(x *exchange) {
	for _, c := range x.clients() {
		e.Clients = append(e.Clients, ExplainedClient{c.name, c.version})
	}
	e.ClientRule, e.DryRun = x.snapshot.explainRule(x.rule), x.snapshot.explainRule(x.dryRun)
	if x.model != nil {
		e.Model = x.model.Name
	}
	if x.wanted != nil {
		e.Variant = x.wanted.Name
	}
	if x.mutated.variant == nil {
		return
	}
	for _, m := range x.snapshot.mutations {
		e.Mutations = append(e.Mutations, x.explainMutation(m))
	}
}

func (s *snapshot) explainRule(rule *clientRule) *ExplainedRule {
	for i := range s.clientRules {
		if &s.clientRules[i] == rule {
			return &ExplainedRule{i, s.config.Clients[i]}
		}
	}
	return nil
}

func (x *exchange) explainMutation(m *mutation) ExplainedMutation {
	out := ExplainedMutation{Name: m.name, Result: "not_matched"}
	for _, met := range x.mutated.met {
		if met.mutation == m {
			out.Result = string(met.result)
			if met.err != nil {
				out.Reason = met.err.Error()
			}
			return out
		}
	}
	if out.Reason = x.misses(m); !slices.Contains(x.mutated.variant.mutations, m) {
		out.Reason = "it is for other models or variants"
	}
	return out
}

func explainSent(x *exchange) *ExplainedSent {
	url := *x.unit.url
	url.RawQuery = ""
	sent := &ExplainedSent{Unit: x.unit.Name, URL: url.String(), Body: x.outbound.Body}
	header := x.unitHeader()
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if value != "" {
				sent.Headers = append(sent.Headers, ExplainedHeader{name, value})
			}
		}
	}
	return sent
}
