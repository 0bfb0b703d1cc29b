package tokenissuer

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// maxBuckets bounds the addresses, and the credentials, that are remembered, the least
// recent forgotten: some 20 MB for each of the two.
const maxBuckets = 65_536

// buckets are a token bucket for each of many keys.
type buckets[K comparable] struct {
	rate RateConfig
	mu   sync.Mutex
	used *simplelru.LRU[K, *rate.Limiter]
}

func newBuckets[K comparable](r RateConfig) *buckets[K] {
	used, err := simplelru.NewLRU[K, *rate.Limiter](maxBuckets, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &buckets[K]{rate: r, used: used}
}

// take takes a token of the key's bucket, or says how long it is until there is one.
func (b *buckets[K]) take(key K, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket, ok := b.used.Get(key)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(b.rate.RequestsPerSecond), b.rate.Burst)
		b.used.Add(key, bucket)
	}
	reserved := bucket.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}

// networkKey is an address, or a /64 of IPv6; credentialKey is a SHA-256, so that no
// credential stays in memory.
type (
	networkKey    = netip.Prefix
	credentialKey = [sha256.Size]byte
)

// limits are those of LimitsConfig.
type limits struct {
	addresses   *buckets[networkKey]
	credentials *buckets[credentialKey]
	limited     *prometheus.CounterVec
	now         func() time.Time
}

func newLimits(c LimitsConfig, registry *prometheus.Registry) (*limits, error) {
	c = c.WithDefaults()
	l := &limits{
		addresses: newBuckets[networkKey](c.PerAddress), credentials: newBuckets[credentialKey](c.PerCredential), now: time.Now,
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ghostline_issuer_rate_limited_total",
			Help: "Exchanges that were refused because there were too many, by endpoint and by what they have in common.",
		}, []string{"endpoint", "per"}),
	}
	return l, registry.Register(l.limited)
}

// address refuses an exchange of an address that has too many.
func (l *limits) address(endpoint string, address netip.Addr) *refusal {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	network, _ := address.Prefix(bits) // an address that is not known has one bucket, the zero Prefix
	wait := l.addresses.take(network, l.now())
	if wait == 0 {
		return nil
	}
	l.limited.WithLabelValues(endpoint, "address").Inc()
	return tooMany("too many requests come from your network; try again later", wait)
}

// credential refuses an exchange of a credential that has too many.
func (l *limits) credential(endpoint string, c identity.Credential) *refusal {
	wait := l.credentials.take(sha256.Sum256([]byte(c.Value)), l.now())
	if wait == 0 {
		return nil
	}
	l.limited.WithLabelValues(endpoint, "credential").Inc()
	return tooMany("this login asks for tokens too often; keep a token for as long as it is good", wait)
}

// tooMany has the error code that RFC 6749 (section 4.1.2.1) has for a server that is
// overloaded: section 5.2, on token endpoints, has none of its own.
func tooMany(message string, wait time.Duration) *refusal {
	return &refusal{
		result: resultLimited, status: http.StatusTooManyRequests, code: "temporarily_unavailable",
		message: message, retryAfter: spread(wait + time.Second), // whole seconds are sent, rounded down
	}
}
