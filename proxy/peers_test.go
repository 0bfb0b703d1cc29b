package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeDNS answers with so many addresses of each family.
type fakeDNS struct{ atomic.Pointer[zone] }

type zone struct {
	four, six int
	err       error
}

func (f *fakeDNS) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	z := f.Load()
	n := z.four
	if network == "ip6" {
		n = z.six
	}
	if z.err == nil && n == 0 {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	return make([]netip.Addr, n), z.err
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		dns, p, ended := &fakeDNS{}, &peers{}, make(chan struct{})
		dns.Store(&zone{four: 3})
		go func() {
			defer close(ended)
			p.follow(ctx, slog.New(slog.DiscardHandler), dns, "proxies")
		}()
		synctest.Wait()
		for _, step := range []struct {
			zone zone
			want int64
		}{
			{zone{four: 3}, 3}, {zone{four: 4, six: 4}, 4},
			{zone{four: 1}, 4}, {zone{six: 2}, 4}, {zone{six: 2}, 2}, // fewer must be said twice
			{zone{}, 2}, {zone{err: errors.New("no servers")}, 2}, {zone{four: 1}, 2}, {zone{four: 1}, 1},
		} {
			dns.Store(&step.zone)
			time.Sleep(countEvery)
			synctest.Wait()
			if got := p.ready(); got != step.want {
				t.Errorf("%+v: counted %d, want %d", step.zone, got, step.want)
			}
		}
		stop()
		<-ended
	})
}

// TestCountWithoutIPv6 asks the system's resolver for a name of which it knows
// an IPv4 address only: an address itself is one.
func TestCountWithoutIPv6(t *testing.T) {
	if n, err := countProxies(t.Context(), net.DefaultResolver, "127.0.0.1"); n != 1 || err != nil {
		t.Errorf("counted %d, %v; want 1", n, err)
	}
}
