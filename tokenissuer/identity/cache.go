package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Defaults of CacheOptions.
const (
	DefaultCacheLife     = time.Hour
	DefaultCacheStale    = 24 * time.Hour
	DefaultCacheNegative = 45 * time.Second
	DefaultTimeout       = 5 * time.Second
	DefaultInFlight      = 64
	DefaultCacheEntries  = 100_000
)

const (
	// maxUnknown bounds what is remembered of credentials that are nobody's, or that
	// could not be looked up. It is apart from those that are known: who makes
	// credentials up must not push out what an outage is bridged with.
	maxUnknown = 16 << 10
	// maxFlights bounds the lookups that wait for their turn.
	maxFlights = 64 << 10
	// restAfterOutage is how soon a credential is looked up again whose lookup failed;
	// restAlone, if the provider answers for others.
	restAfterOutage = 2 * time.Second
	restAlone       = 5 * time.Second
)

// CacheOptions is how a Cached behaves; what is zero is the default.
type CacheOptions struct {
	// Life is how long an answer is good for. Somebody's whose access the provider has
	// withdrawn is noticed within it. Up to a tenth less, so that answers that came
	// together do not end together.
	Life time.Duration
	// Stale is how long after an answer it is still used while the provider is out.
	// Life or less is never.
	Stale time.Duration
	// Negative is how long it is remembered that a credential is nobody's.
	Negative time.Duration
	// Timeout bounds one lookup, and before it, the wait for its turn.
	Timeout time.Duration
	// InFlight bounds lookups at a time. A quarter of them is kept for credentials that
	// are known, so that who makes credentials up cannot keep those from being renewed.
	InFlight int
	// Entries bounds how many known credentials are remembered: the least recently used
	// are forgotten.
	Entries int
	// Observer is told what happens; may be nil.
	Observer Observer
	// Log is told when the provider goes out and comes back; may be nil.
	Log *slog.Logger
}

func (o *CacheOptions) setDefaults() {
	setDefault(&o.Life, DefaultCacheLife)
	setDefault(&o.Stale, DefaultCacheStale)
	setDefault(&o.Negative, DefaultCacheNegative)
	setDefault(&o.Timeout, DefaultTimeout)
	setDefault(&o.InFlight, DefaultInFlight)
	setDefault(&o.Entries, DefaultCacheEntries)
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// errBusy is why a lookup was not begun: more wait than the provider is asked at a time.
var errBusy = errors.New("too many lookups at the identity provider wait for their turn")

// errClosed is of a Cached that was closed.
var errClosed = errors.New("the issuer is ending")

// notAsked is an outage in which the provider had no part: it was not asked.
type notAsked struct{ error }

func (e notAsked) Unwrap() error { return e.error }

// Cached remembers the answers of a provider and spares it: one lookup at a time for each
// credential, a bounded number in all. While the provider is out, it answers with what the
// provider said last. An outage ends lookups at once instead of by timeout: after three
// that failed in a row, or one that was told to come back later, a single one tries
// whether the provider is back, after 1 s at first and 10 s at most. One lookup that fails
// alone bars nobody else's.
//
// It keeps a SHA-256 of each credential, never the credential itself.
type Cached struct {
	provider Provider
	o        CacheOptions
	// slots has a place for each lookup, newcomers for each of a credential that is not
	// known: fewer.
	slots, newcomers chan struct{}
	// base ends when the Cached is closed; lookups are its, not their callers'.
	base    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	memory  memory
	outage  outage
	flights map[key]*flight
}

// key stands for a credential of a type: the type is a part of what a provider is asked.
type key [sha256.Size]byte

func keyOf(c Credential) key { return sha256.Sum256([]byte(string(c.Type) + "\x00" + c.Value)) }

// flight is a lookup that callers share. Its outcome is set when done is closed.
type flight struct {
	done chan struct{}
	outcome
	newcomer bool
	probe    bool // it tries whether an outage is over
}

// outcome is what a caller gets, and how it came about.
type outcome struct {
	who    Identity
	err    error
	result CacheResult
}

// NewCached puts a cache before a provider. Close it, and nothing of it runs any more.
func NewCached(provider Provider, o CacheOptions) *Cached {
	o.setDefaults()
	c := &Cached{
		provider: provider, o: o, flights: map[key]*flight{}, memory: newMemory(o.Entries),
		slots: make(chan struct{}, o.InFlight), newcomers: make(chan struct{}, max(1, o.InFlight-o.InFlight/4)),
	}
	c.base, c.end = context.WithCancel(context.Background())
	o.Observer.Up(true)
	return c
}

// Name is the provider's name.
func (c *Cached) Name() string { return c.provider.Name() }

// Login is the provider's, if it has one.
func (c *Cached) Login() (Login, bool) {
	if people, ok := c.provider.(LoginProvider); ok {
		return people.Login()
	}
	return Login{}, false
}

// Outage is why the provider is held to be out; nil if it is not.
func (c *Cached) Outage() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.outage.isOn() {
		return nil
	}
	return c.outage.cause
}

// Close ends all lookups, waits for them, and closes the provider if that can be. Identify
// is an outage from then on.
func (c *Cached) Close() error {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.running.Wait()
	if provider, ok := c.provider.(io.Closer); ok {
		return provider.Close()
	}
	return nil
}

// Identify answers from memory or asks the provider. A caller whose ctx ends leaves; a
// lookup that it began goes on.
func (c *Cached) Identify(ctx context.Context, credential Credential) (Identity, error) {
	if s, ok := c.provider.(Screener); ok && !s.Plausible(credential) {
		return Identity{}, ErrUnknownCredential
	}
	o, f := c.recall(credential)
	if f != nil {
		select {
		case <-f.done:
			o = f.outcome
		case <-ctx.Done():
			o = outcome{err: context.Cause(ctx), result: CacheLeft}
		}
	}
	c.o.Observer.Answered(o.result)
	return o.who.clone(), o.err
}

// recall returns what is known without asking, or the lookup that will tell.
func (c *Cached) recall(credential Credential) (outcome, *flight) {
	k, now := keyOf(credential), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	last, isKnown := c.memory.last(k, now, c.o.Stale)
	if isKnown && now.Before(last.fresh) {
		last.who.Cached = true
		return outcome{who: last.who, result: CacheHit}, nil
	}
	if err := c.memory.unknownFor(k, now); err != nil {
		return outcome{err: err, result: CacheNegative}, nil
	}
	if err := c.refusal(k, now); err != nil {
		return fallBack(last, isKnown, err), nil
	}
	f := c.flights[k]
	if f == nil {
		f = &flight{done: make(chan struct{}), newcomer: !isKnown, probe: c.outage.admit()}
		c.flights[k] = f
		c.running.Go(func() { c.fly(k, credential, f) })
	}
	return outcome{}, f
}

// refusal is why the provider is not asked now.
func (c *Cached) refusal(k key, now time.Time) error {
	if c.base.Err() != nil {
		return notAsked{errClosed}
	}
	if err := c.memory.restingFor(k, now); err != nil {
		return err
	}
	if c.outage.refuses(now) {
		return c.outage.cause
	}
	if len(c.flights) >= maxFlights {
		return notAsked{errBusy}
	}
	return nil
}

// fallBack is the outcome of an outage.
func fallBack(last answer, isKnown bool, err error) outcome {
	if isKnown {
		last.who.Stale = true
		return outcome{who: last.who, result: CacheStale}
	}
	if errors.Is(err, errBusy) {
		return outcome{err: err, result: CacheBusy}
	}
	return outcome{err: err, result: CacheOutage}
}

// fly is one lookup, from its turn to what is remembered of it.
func (c *Cached) fly(k key, credential Credential, f *flight) {
	who, err := c.takeTurn(credential, f)
	c.mu.Lock()
	wasOut := c.outage.isOn()
	f.outcome = c.learn(k, f, who, err)
	delete(c.flights, k)
	isOut := c.outage.isOn()
	c.mu.Unlock()
	// Callers go on when the change is told, so that who sees an answer sees it too.
	defer close(f.done)
	if isOut == wasOut {
		return
	}
	c.o.Observer.Up(!isOut)
	if isOut {
		c.o.Log.Error("identity provider is out; who is known gets the last good answer", "provider", c.Name(), "cause", err)
		return
	}
	c.o.Log.Info("identity provider is back", "provider", c.Name())
}

// takeTurn waits for a place and asks.
func (c *Cached) takeTurn(credential Credential, f *flight) (Identity, error) {
	wait, cancel := context.WithTimeout(c.base, c.o.Timeout)
	defer cancel()
	places := []chan struct{}{c.slots}
	if f.newcomer {
		places = []chan struct{}{c.newcomers, c.slots}
	}
	for _, place := range places {
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
		case <-wait.Done():
			return Identity{}, notAsked{errBusy}
		}
	}
	c.mu.Lock()
	refused := !f.probe && c.outage.refuses(time.Now()) // the outage began while it waited
	cause := c.outage.cause
	c.mu.Unlock()
	if refused {
		return Identity{}, notAsked{cause}
	}
	return c.ask(credential)
}

func (c *Cached) ask(credential Credential) (Identity, error) {
	ctx, cancel := context.WithTimeout(c.base, c.o.Timeout)
	defer cancel()
	start := time.Now()
	who, err := c.guarded(ctx, credential)
	if err != nil && c.base.Err() != nil {
		return Identity{}, notAsked{errClosed}
	}
	c.o.Observer.Asked(lookupResult(err), time.Since(start))
	return who, err
}

// guarded turns a panic into an outage, as the HTTP server does for what runs in its own
// goroutines. What panicked may hold the credential, so the log has only where.
func (c *Cached) guarded(ctx context.Context, credential Credential) (who Identity, err error) {
	defer func() {
		if recover() != nil {
			c.o.Log.Error("panic in an identity provider", "provider", c.Name(), "stack", string(debug.Stack()))
			err = &OutageError{Cause: fmt.Errorf("identity provider %s panicked; the log has where", c.Name()), Single: true}
		}
	}()
	return c.provider.Identify(ctx, credential)
}

// learn remembers what a lookup found, and returns what its callers get.
func (c *Cached) learn(k key, f *flight, who Identity, err error) outcome {
	now := time.Now()
	var unasked notAsked
	switch {
	case err == nil:
		c.memory.know(k, who.clone(), now, c.o.Life)
		c.outage.over()
		return outcome{who: who, result: CacheAsked}
	case errors.Is(err, ErrUnknownCredential):
		c.memory.deny(k, err, now.Add(c.o.Negative))
		c.outage.over()
		return outcome{err: err, result: CacheAsked}
	case errors.As(err, &unasked):
		if f.probe {
			c.outage.probing = false
		}
	default:
		c.suffer(k, f, now, err)
	}
	last, isKnown := c.memory.last(k, now, c.o.Stale)
	return fallBack(last, isKnown, err)
}

// suffer remembers a lookup that failed.
func (c *Cached) suffer(k key, f *flight, now time.Time, err error) {
	var known OutageError
	if more := (*OutageError)(nil); errors.As(err, &more) {
		known = *more
	}
	known.RetryAfter = min(known.RetryAfter, maxPause)
	if known.Single {
		c.outage.over()
		c.memory.rest(k, err, now.Add(max(known.RetryAfter, restAlone)))
		return
	}
	c.outage.failed(now, err, known.RetryAfter, f.probe)
	c.memory.rest(k, err, now.Add(restAfterOutage))
}
