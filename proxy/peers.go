package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// countEvery is how often the region's proxies are counted.
const countEvery = 5 * time.Second

// peers is how many proxies of this region are ready, this one among them. They
// share the capacity of the region's units. The zero value is this proxy alone.
type peers struct{ others atomic.Int64 }

func (p *peers) set(ready int) { p.others.Store(int64(ready - 1)) }

func (p *peers) ready() int64 { return p.others.Load() + 1 }

// places is this proxy's share of a unit's places, rounded up so that it has at
// least one: many proxies in front of a small unit ask a little too much of it
// rather than nothing.
func (p *peers) places(region int) int64 { return (int64(region) + p.ready() - 1) / p.ready() }

// rate is this proxy's share of a unit's requests a second.
func (p *peers) rate(region float64) float64 { return region / float64(p.ready()) }

// burst is how many requests may come at once at a rate.
func burst(rate float64) int { return max(1, int(math.Ceil(rate))) }

// resolver looks up a host's addresses.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// follow counts the proxies behind a headless Service's name, which resolves to
// the addresses of those that are ready, until ctx is done. While it resolves to
// nothing, the last count holds: this proxy at least is there. That there are
// fewer is believed when it is said twice: an answer of DNS may lack some, and the
// units must not be asked for more than they have because of it.
func (p *peers) follow(ctx context.Context, log *slog.Logger, dns resolver, host string) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	var warned warnings
	last := 0
	for ctx.Err() == nil {
		ready, err := countProxies(ctx, dns, host)
		believed := int64(ready) > p.ready() || ready == last
		last = ready
		switch {
		case err == nil && !believed:
		case err == nil && int64(ready) != p.ready():
			p.set(ready)
			log.Info("the proxies that share the units' capacity have changed", "ready", p.ready())
		case err != nil && ctx.Err() == nil && warned.due(time.Now()):
			log.Warn("the region's proxies cannot be counted; the last count holds", "ready", p.ready(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// countProxies counts addresses. In a dual-stack cluster every proxy has one of
// each family.
func countProxies(ctx context.Context, dns resolver, host string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, countEvery)
	defer cancel()
	most := 0
	var errs []error
	for _, network := range []string{"ip4", "ip6"} {
		addresses, err := dns.LookupNetIP(ctx, network, host)
		if noneOfFamily(err) {
			err = nil
		}
		errs = append(errs, err)
		most = max(most, len(addresses))
	}
	if most == 0 {
		errs = append(errs, fmt.Errorf("%s has no address", host))
	}
	return most, errors.Join(errs...)
}

// noneOfFamily is true for a name that has no address of the family that was
// asked for. One that is in /etc/hosts with the other family only is told of by
// another error than one in DNS.
func noneOfFamily(err error) bool {
	if notFound, ok := errors.AsType[*net.DNSError](err); ok {
		return notFound.IsNotFound
	}
	_, ok := errors.AsType[*net.AddrError](err)
	return ok
}
