package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

const maxCredential = 8 << 10

// addUnits makes the config's units ready. A unit that cannot be made ready is
// left out with its problem named; it never takes the others down.
func (l *loader) addUnits(s *snapshot, in *inputs) {
	for i, cfg := range s.config.Units {
		u := l.metrics.newUnit(s.config, cfg)
		err := s.config.CheckUnit(i)
		if err == nil {
			err = l.ready(u, time.Duration(s.config.Timeouts.Connect), in)
		}
		if err != nil {
			u.problem = err.Error()
		}
		s.units = append(s.units, u)
	}
}

// addVariants gives the variants what they are counted with, and their mirrors
// the queues that they had under an earlier config.
func (l *loader) addVariants(s *snapshot) {
	for _, v := range s.variants {
		v.feedback = l.metrics.feedbackOf(v.model.Name, v.Name)
	}
	for _, m := range s.mirrors {
		if m.queue = l.queues[m.name()]; m.queue == nil {
			m.queue = &mirrorQueue{}
		}
		m.metrics = l.metrics.mirrors.of(m.of.model.Name, m.Of, m.To)
	}
}

func (m *metrics) newUnit(cfg *config.Config, u config.Unit) *unit {
	model, variant, _ := strings.Cut(u.Serves, "/")
	return &unit{
		Unit: u, metrics: m.unit(u, cfg.Region, model, variant),
		probed: cfg.HealthProbe != nil && u.Region == cfg.Region,
	}
}

func (l *loader) ready(u *unit, connect time.Duration, in *inputs) (err error) {
	if err := u.speak(); err != nil {
		return err
	}
	if u.Credential != "" {
		if u.credential, err = l.readCredential(u.Credential, in); err != nil {
			return fmt.Errorf("credential: %w", err)
		}
	}
	if u.endpoint, err = l.endpoint(u, connect, in); err != nil {
		return err
	}
	u.endpoint.isSetUp(setup{u.URL, u.model, u.credential})
	return nil
}

// speak finds out how the unit is spoken to.
func (u *unit) speak() (err error) {
	if u.url, err = url.Parse(u.URL); err != nil {
		return errors.New("url: is no URL")
	}
	if u.dialect, err = provider.For(u.Unit); err != nil {
		return err
	}
	if u.model = u.UpstreamModel; u.model == "" {
		u.model, _, _ = strings.Cut(u.Serves, "/")
	}
	return nil
}

// isSetUp notes what the unit is asked by from now on. Failures of one that was
// misconfigured say nothing of it any more if that is another thing: it need not
// serve its time after the mistake is mended.
func (e *endpoint) isSetUp(by setup) {
	if by != e.setup && e.misconfigured.Swap(false) {
		e.health.Forget()
	}
	e.setup = by
}

// readCredential returns an entry of the credentials directory, without the
// line end that editors leave behind it.
func (l *loader) readCredential(entry string, in *inputs) (string, error) {
	if l.credentials == "" {
		return "", fmt.Errorf("entry %q is asked for, but this proxy was given no credentials directory", entry)
	}
	data, err := in.read(filepath.Join(l.credentials, entry))
	if err != nil {
		return "", err
	}
	credential := strings.TrimRight(string(data), "\r\n")
	if credential == "" || len(credential) > maxCredential || strings.ContainsFunc(credential, notVisible) {
		return "", fmt.Errorf("entry %q must hold 1 to %d visible ASCII characters", entry, maxCredential)
	}
	return credential, nil
}

// notVisible is true for what a header's value must not hold (RFC 9110 section 5.5).
func notVisible(r rune) bool { return r < ' ' || r > '~' }

// endpoint returns the connections of a unit: those that an earlier config
// opened, if it reached the same place and trusted the same certificates.
func (l *loader) endpoint(u *unit, connect time.Duration, in *inputs) (*endpoint, error) {
	opts := upstream.Options{URL: u.url, Protocol: u.Protocol, ConnectTimeout: connect, Standstill: l.standstill}
	trust := ""
	if u.TLS != nil {
		opts.TLS = &tls.Config{ServerName: u.TLS.ServerName, MinVersion: tls.VersionTLS12}
		trust = u.TLS.ServerName
		if u.TLS.CAFile != "" {
			roots, hash, err := in.certificates(u.TLS.CAFile)
			if err != nil {
				return nil, fmt.Errorf("tls.caFile: %w", err)
			}
			opts.TLS.RootCAs = roots
			trust += " " + hash
		}
	}
	place := fmt.Sprintf("%s %s://%s %s", u.Name, u.url.Scheme, u.url.Host, u.Protocol)
	last := l.endpoints[place]
	if last != nil && last.trust == trust {
		last.pool.SetConnectTimeout(connect)
		return last, nil
	}
	pool, err := upstream.New(opts)
	if err != nil {
		return nil, err
	}
	e := &endpoint{pool: pool, trust: trust, inFlight: new(atomic.Int64), bucket: newBucket(u.Capacity)}
	if last != nil {
		e.inFlight, e.bucket = last.inFlight, last.bucket
		now := time.Now()
		if state, until := last.health.State(now); state == upstream.Cooling {
			e.health.Cool(now, until)
		}
	}
	l.endpoints[place] = e
	pool.Warm()
	return e, nil
}
