package tokenissuer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/filewatch"
	"github.com/ghostline-dev/ghostline/tokenissuer/entitlement"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/prometheus/client_golang/prometheus"
)

// pollEntitlements is how often the file is looked at where nothing tells of changes.
const pollEntitlements = 10 * time.Second

// entitlements are the rules of a file, kept fresh. Whatever is wrong with a new file, the
// last good rules stay.
type entitlements struct {
	file      string // "" is no rules
	providers []string
	log       *slog.Logger
	policy    atomic.Pointer[entitlement.Policy]

	decisions  *prometheus.CounterVec
	successful prometheus.Gauge

	// Of the one goroutine that loads.
	digest [sha256.Size]byte // of what was looked at last
	said   string            // what the log says is wrong with it
}

func newEntitlements(o Options) (*entitlements, error) {
	e := &entitlements{
		log: o.Log,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ghostline_issuer_entitlement_decisions_total",
			Help: "Identities that the entitlements were asked about, by identity provider and decision.",
		}, []string{"provider", "decision"}),
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ghostline_issuer_entitlements_last_reload_successful",
			Help: "1 if the entitlements in use are those of the file, 0 if the file was refused.",
		}),
	}
	if o.Config.Entitlements == nil {
		return e, nil
	}
	e.file = o.Config.Entitlements.File
	for _, p := range o.Config.IdentityProviders {
		e.providers = append(e.providers, p.Name)
	}
	for _, c := range []prometheus.Collector{e.decisions, e.successful} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	if _, err := e.load(); err != nil {
		return nil, err
	}
	e.successful.Set(1)
	return e, nil
}

// decide is the decision on an identity, by the rules as they are now.
func (e *entitlements) decide(provider string, who identity.Identity) entitlement.Decision {
	d := e.policy.Load().Decide(provider, who)
	label := "allowed"
	switch {
	case !d.Allowed && d.Rule == "":
		label = "no_rule"
	case !d.Allowed:
		label = "denied"
	}
	e.decisions.WithLabelValues(provider, label).Inc()
	return d
}

// watch keeps the rules fresh until ctx is done.
func (e *entitlements) watch(ctx context.Context) {
	if e.file != "" {
		filewatch.Watch(ctx, e.log, []string{filepath.Dir(e.file)}, pollEntitlements, e.reload)
	}
}

// reload takes the file over if it changed.
func (e *entitlements) reload() {
	changed, err := e.load()
	switch {
	case err == nil && !changed:
	case err == nil:
		e.said = ""
		e.successful.Set(1)
		e.log.Info("entitlements are in use", "file", e.file, "rules", e.policy.Load().Rules())
	default:
		e.successful.Set(0)
		if e.said != err.Error() {
			e.said = err.Error()
			e.log.Error("the entitlements are refused; the last good ones stay in use", "error", err)
		}
	}
}

// load reads the file, unless it is what was read last, and good.
func (e *entitlements) load() (changed bool, err error) {
	data, err := entitlement.ReadFile(e.file)
	if err != nil {
		return false, fmt.Errorf("entitlements: %w", err)
	}
	digest := sha256.Sum256(data)
	if digest == e.digest && e.said == "" {
		return false, nil
	}
	policy, err := entitlement.Parse(data)
	if err == nil {
		err = e.checkProviders(policy)
	}
	if err != nil {
		return false, fmt.Errorf("entitlements %s: %w", e.file, err)
	}
	e.policy.Store(policy)
	e.digest = digest
	return true, nil
}

// checkProviders refuses rules that could never match, of which one may be a denial.
func (e *entitlements) checkProviders(policy *entitlement.Policy) error {
	for _, name := range policy.Providers() {
		if !slices.Contains(e.providers, name) {
			return fmt.Errorf("match.providers of a rule: %q is no identity provider of this issuer; there are: %s",
				name, strings.Join(e.providers, ", "))
		}
	}
	return nil
}
