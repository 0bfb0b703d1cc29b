package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scripted is a provider whose answers a test decides, in a bubble where time is not
// waited for. What credentials it was asked about it notes.
type scripted struct {
	mu       sync.Mutex
	answer   func(ctx context.Context, credential Credential) (Identity, error)
	asked    []string
	inFlight int
	most     int
}

func (s *scripted) Name() string { return "hub" }

func (s *scripted) Plausible(credential Credential) bool { return credential.Type != IDToken }

func (s *scripted) Identify(ctx context.Context, credential Credential) (Identity, error) {
	s.mu.Lock()
	s.asked = append(s.asked, credential.Value)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	answer := s.answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inFlight--
		s.mu.Unlock()
	}()
	return answer(ctx, credential)
}

func (s *scripted) answers(answer func(ctx context.Context, credential Credential) (Identity, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *scripted) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

var errOut = errors.New("the provider is out")

func knows(_ context.Context, credential Credential) (Identity, error) {
	return Identity{Subject: "hub:" + credential.Value, Organizations: []string{"acme"}, Claims: map[string][]string{"login": {"a"}}}, nil
}

func denies(context.Context, Credential) (Identity, error) { return Identity{}, ErrUnknownCredential }
func isOut(context.Context, Credential) (Identity, error)  { return Identity{}, errOut }

// hangs is a provider that does not answer before the lookup's time is over.
func hangs(ctx context.Context, _ Credential) (Identity, error) {
	<-ctx.Done()
	return Identity{}, ctx.Err()
}

// takes answers after a while.
func takes(d time.Duration, answer func(context.Context, Credential) (Identity, error)) func(context.Context, Credential) (Identity, error) {
	return func(ctx context.Context, credential Credential) (Identity, error) {
		select {
		case <-ctx.Done():
			return Identity{}, ctx.Err()
		case <-time.After(d):
			return answer(ctx, credential)
		}
	}
}

// tally counts what it is told.
type tally struct {
	mu      sync.Mutex
	answers map[CacheResult]int
	lookups map[LookupResult]int
	up      []bool
}

func (c *tally) Answered(r CacheResult)                { c.mu.Lock(); c.answers[r]++; c.mu.Unlock() }
func (c *tally) Asked(r LookupResult, _ time.Duration) { c.mu.Lock(); c.lookups[r]++; c.mu.Unlock() }
func (c *tally) Up(up bool)                            { c.mu.Lock(); c.up = append(c.up, up); c.mu.Unlock() }

func (c *tally) want(t *testing.T, answers map[CacheResult]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(answers, c.answers); diff != "" {
		t.Errorf("cache results (-want +got):\n%s", diff)
	}
}

// cached is a Cached under test.
type cached struct {
	*Cached
	provider *scripted
	tally    *tally
	t        *testing.T
}

func inBubble(t *testing.T, o CacheOptions, run func(t *testing.T, c *cached)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cached{provider: &scripted{answer: knows}, tally: &tally{answers: map[CacheResult]int{}, lookups: map[LookupResult]int{}}, t: t}
		o.Observer = c.tally
		c.Cached = NewCached(c.provider, o)
		defer c.Close()
		run(t, c)
	})
}

func (c *cached) identify(value string) (Identity, error) {
	return c.Identify(c.t.Context(), Credential{Value: value, Type: AccessToken})
}

// want holds that a credential is known, whether by a stale answer, and that the provider
// has been asked so often.
func (c *cached) want(value string, stale bool, calls int) {
	c.t.Helper()
	who, err := c.identify(value)
	if err != nil || who.Subject != "hub:"+value || who.Stale != stale {
		c.t.Errorf("%s is %+v, %v; want it known, stale %v", value, who, err, stale)
	}
	c.wantCalls(calls)
}

func (c *cached) wantError(value string, want error, calls int) {
	c.t.Helper()
	if who, err := c.identify(value); !errors.Is(err, want) || who.Subject != "" {
		c.t.Errorf("%s is %+v, %v; want the error %v", value, who, err, want)
	}
	c.wantCalls(calls)
}

func (c *cached) wantCalls(want int) {
	c.t.Helper()
	if got := c.provider.calls(); got != want {
		c.t.Errorf("the provider was asked %d times, want %d", got, want)
	}
}

func TestCacheLife(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.want("a", false, 1)
		time.Sleep(DefaultCacheLife*9/10 - time.Second)
		c.want("a", false, 1)
		time.Sleep(DefaultCacheLife/10 + time.Second)
		c.want("a", false, 2)
		c.provider.answers(denies)
		c.want("a", false, 2)
		time.Sleep(DefaultCacheLife)
		c.wantError("a", ErrUnknownCredential, 3)
		c.provider.answers(isOut) // a denial is not undone by an outage
		time.Sleep(DefaultCacheNegative)
		c.wantError("a", errOut, 4)
		c.tally.want(t, map[CacheResult]int{CacheAsked: 3, CacheHit: 2, CacheOutage: 1})
	})
}

// TestCacheKeepsTypesApart: what is an access token to a provider may be no JWT to it.
func TestCacheKeepsTypesApart(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.want("a", false, 1)
		if _, err := c.Identify(t.Context(), Credential{Value: "a", Type: JWT}); err != nil {
			t.Error(err)
		}
		c.wantCalls(2)
		if _, err := c.Identify(t.Context(), Credential{Value: "a", Type: IDToken}); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("error %v of an implausible credential", err)
		}
		c.wantCalls(2)
	})
}

func TestNegativeCache(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.provider.answers(denies)
		c.wantError("a", ErrUnknownCredential, 1)
		time.Sleep(DefaultCacheNegative - time.Second)
		c.wantError("a", ErrUnknownCredential, 1)
		c.provider.answers(knows)
		time.Sleep(time.Second)
		c.want("a", false, 2)
		c.tally.want(t, map[CacheResult]int{CacheAsked: 2, CacheNegative: 1})
	})
}

// TestStale: an outage is never a denial, for a day.
func TestStale(t *testing.T) {
	for name, outage := range map[string]func(context.Context, Credential) (Identity, error){"error": isOut, "timeout": hangs} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
				c.want("a", false, 1)
				c.provider.answers(outage)
				time.Sleep(DefaultCacheLife)
				c.want("a", true, 2)
				time.Sleep(DefaultCacheStale - DefaultCacheLife - time.Minute)
				c.want("a", true, 3)
				time.Sleep(time.Minute)
				if _, err := c.identify("a"); err == nil || errors.Is(err, ErrUnknownCredential) {
					t.Errorf("error %v after a day, want an outage", err)
				}
				c.provider.answers(knows)
				time.Sleep(time.Minute)
				c.want("a", false, 5)
			})
		})
	}
}

// TestNoStaleIfTurnedOff: a security team may prefer none.
func TestNoStaleIfTurnedOff(t *testing.T) {
	inBubble(t, CacheOptions{Life: time.Minute, Stale: time.Minute}, func(t *testing.T, c *cached) {
		c.want("a", false, 1)
		c.provider.answers(isOut)
		time.Sleep(time.Minute)
		c.wantError("a", errOut, 2)
	})
}

// TestEndedCredential: what is known to have ended is asked about, and never stale.
func TestEndedCredential(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		ends := time.Now().Add(time.Minute)
		c.provider.answers(func(ctx context.Context, credential Credential) (Identity, error) {
			who, err := knows(ctx, credential)
			who.Expires = ends
			return who, err
		})
		c.want("a", false, 1)
		time.Sleep(time.Minute - 1)
		c.want("a", false, 1)
		c.provider.answers(isOut)
		time.Sleep(time.Nanosecond)
		c.wantError("a", errOut, 2)
	})
}

// that makes it fail.
// TestOneLookup: a thousand who ask at once share one, and it outlives the first of them.
func TestOneLookup(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.provider.answers(takes(time.Second, knows))
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := c.Identify(ctx, Credential{Value: "a", Type: AccessToken})
			left <- err
		}()
		synctest.Wait()
		var wait sync.WaitGroup
		for range 1000 {
			wait.Go(func() { c.want("a", false, 1) })
		}
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		wait.Wait()
		c.tally.want(t, map[CacheResult]int{CacheAsked: 1000, CacheLeft: 1})
	})
}

// TestSharedAnswersMayBeChanged: each caller has its own.
func TestSharedAnswersMayBeChanged(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		for range 3 {
			who, err := c.identify("a")
			if err != nil || who.Organizations[0] != "acme" || who.Claims["login"][0] != "a" {
				t.Fatalf("%+v, %v", who, err)
			}
			who.Organizations[0], who.Claims["login"][0] = "evil", "b"
			maps.DeleteFunc(who.Claims, func(string, []string) bool { return false })
			who.Claims["c"] = nil
		}
	})
}

// refused, and the provider has no more lookups at a time than it may.
// arrive has users ask at once, who must all be known, and returns how many answers are
// stale.
// being noticed, nor push out those who are known.
func TestCacheIsBounded(t *testing.T) {
	inBubble(t, CacheOptions{Entries: 10}, func(t *testing.T, c *cached) {
		for i := range 11 {
			c.want(fmt.Sprint(i), false, i+1)
		}
		c.want("10", false, 11)
		c.want("0", false, 12)
		c.provider.answers(denies)
		for i := range maxUnknown + 10 {
			_, _ = c.identify(fmt.Sprint("x", i))
		}
		if n := c.memory.unknown.Len(); n != maxUnknown {
			t.Errorf("%d unknown credentials are remembered, want %d", n, maxUnknown)
		}
		c.want("10", false, 12+maxUnknown+10)
	})
}

// TestCloseEndsLookups: nobody waits for a lookup of a server that ends, and it says
// nothing of the provider.
func TestCloseEndsLookups(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.provider.answers(hangs)
		ended := make(chan error, 1)
		go func() {
			_, err := c.identify("a")
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil || time.Since(start) != 0 {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if err := <-ended; !errors.Is(err, errClosed) {
			t.Errorf("error %v", err)
		}
		c.wantError("b", errClosed, 1)
		if len(c.tally.lookups) != 0 || c.Outage() != nil {
			t.Errorf("lookups %v, outage %v", c.tally.lookups, c.Outage())
		}
	})
}

func TestPanicIsAnOutage(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.provider.answers(func(_ context.Context, credential Credential) (Identity, error) { panic(credential.Value) })
		_, err := c.identify("hunter2")
		if err == nil || errors.Is(err, ErrUnknownCredential) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v", err)
		}
	})
}

// TestCacheHoldsNoCredential: not in what it keeps, at any depth that is printed.
func TestCacheHoldsNoCredential(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.provider.answers(func(context.Context, Credential) (Identity, error) { return Identity{Subject: "s"}, nil })
		_, _ = c.identify("hunter2")
		c.provider.answers(denies)
		_, _ = c.identify("hunter3")
		c.provider.answers(isOut)
		_, _ = c.identify("hunter4")
		for _, lru := range []any{c.memory.known.Values(), c.memory.known.Keys(), c.memory.unknown.Values(), c.memory.resting.Values()} {
			if got := fmt.Sprintf("%+q", lru); strings.Contains(got, "hunter") {
				t.Errorf("it keeps %s", got)
			}
		}
	})
}
