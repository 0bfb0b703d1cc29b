package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutageEndsLookups: three lookups may fail; then, one at a time tries.
func TestOutageEndsLookups(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.want("known", false, 1)
		time.Sleep(DefaultCacheLife)
		c.provider.answers(hangs)
		for i := range 3 {
			c.wantError(fmt.Sprint("a", i), context.DeadlineExceeded, 2+i)
		}
		if c.Outage() == nil {
			t.Error("the provider is not held to be out")
		}
		start := time.Now()
		for i := range 100 {
			c.wantError(fmt.Sprint("b", i), context.DeadlineExceeded, 4)
		}
		c.want("known", true, 4)
		if took := time.Since(start); took != 0 {
			t.Errorf("an outage that is known takes %v", took)
		}
		time.Sleep(firstProbe)
		var wait sync.WaitGroup
		for i := range 100 {
			wait.Go(func() { _, _ = c.identify(fmt.Sprint("c", i)) })
		}
		wait.Wait()
		c.wantCalls(5)
		time.Sleep(2 * firstProbe)
		c.provider.answers(denies) // an answer too
		c.wantError("d", ErrUnknownCredential, 6)
		if err := c.Outage(); err != nil {
			t.Errorf("the provider is held to be out: %v", err)
		}
		c.provider.answers(knows)
		c.want("known", false, 7)
		if want := []bool{true, false, true}; !slices.Equal(c.tally.up, want) {
			t.Errorf("the provider was said to be up %v, want %v", c.tally.up, want)
		}
	})
}

// TestProbesStayApart: an hour of outage costs the provider at most one lookup each 7 s.
func TestProbesStayApart(t *testing.T) {
	inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
		c.provider.answers(isOut)
		for i := range 36000 {
			_, _ = c.identify(fmt.Sprint(i))
			time.Sleep(100 * time.Millisecond)
		}
		if calls := c.provider.calls(); calls < 360 || calls > 500 {
			t.Errorf("the provider was asked %d times in an hour", calls)
		}
	})
}

// TestProviderIsLeftAloneAsLongAsItWants: others' credentials too.
func TestProviderIsLeftAloneAsLongAsItWants(t *testing.T) {
	inBubble(t, CacheOptions{Life: time.Minute}, func(t *testing.T, c *cached) {
		c.want("known", false, 1)
		time.Sleep(time.Minute)
		c.provider.answers(func(context.Context, Credential) (Identity, error) {
			return Identity{}, &OutageError{Cause: errOut, RetryAfter: 20 * time.Minute}
		})
		c.wantError("a", errOut, 2)
		c.want("known", true, 2)
		c.provider.answers(knows)
		time.Sleep(20*time.Minute - time.Second)
		c.wantError("a", errOut, 2)
		c.wantError("b", errOut, 2)
		time.Sleep(time.Second)
		c.want("known", false, 3)
		c.want("a", false, 4)
		if c.tally.lookups[LookupLimited] != 1 {
			t.Errorf("lookups %v", c.tally.lookups)
		}
	})
}

// TestOneCredentialBarsNobody: neither one that the provider cannot answer for, nor one
func TestOneCredentialBarsNobody(t *testing.T) {
	for name, err := range map[string]error{"single": &OutageError{Cause: errOut, Single: true, RetryAfter: 20 * time.Second}, "any": errOut} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, CacheOptions{}, func(t *testing.T, c *cached) {
				c.provider.answers(func(ctx context.Context, credential Credential) (Identity, error) {
					if credential.Value == "bad" {
						return Identity{}, err
					}
					return knows(ctx, credential)
				})
				calls := 0
				for i := range 600 {
					if _, got := c.identify("bad"); !errors.Is(got, errOut) {
						t.Errorf("error %v", got)
					}
					if i%4 == 0 {
						if who, err := c.identify(fmt.Sprint(i)); err != nil || who.Stale {
							t.Fatalf("after %d s another's is %+v, %v", i, who, err)
						}
						calls++
					}
					time.Sleep(time.Second)
				}
				most := map[string]int{"single": 30, "any": 300}[name]
				if bad := c.provider.calls() - calls; bad < most/2 || bad > most {
					t.Errorf("the one was asked about %d times, want at most %d", bad, most)
				}
			})
		})
	}
}

// TestArrivalsAfterOutage: 10,000 whose identities are too old at once. Nobody is
func TestArrivalsAfterOutage(t *testing.T) {
	const users = 10_000
	inBubble(t, CacheOptions{Life: time.Hour}, func(t *testing.T, c *cached) {
		for i := range users {
			_, _ = c.identify(fmt.Sprint(i))
		}
		time.Sleep(time.Hour)
		c.provider.answers(takes(200*time.Millisecond, knows))
		stale := c.arrive(users, func(i int) string { return fmt.Sprint(i) })
		if stale == users || stale == 0 {
			t.Errorf("%d of %d answers are stale", stale, users)
		}
		if c.provider.most > DefaultInFlight || c.provider.most < DefaultInFlight/2 {
			t.Errorf("%d lookups at a time, want %d at most", c.provider.most, DefaultInFlight)
		}
		c.wantNoOutage()
	})
}

func (c *cached) arrive(users int, name func(i int) string) (stale int) {
	c.t.Helper()
	var wait sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for i := range users {
		wait.Go(func() {
			who, err := c.identify(name(i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.t.Errorf("user %d: %v", i, err)
			}
			if who.Stale {
				stale++
			}
		})
	}
	wait.Wait()
	if took := time.Since(start); took > 2*DefaultTimeout {
		c.t.Errorf("the last waited %v", took)
	}
	return stale
}

// TestStrangersDoNotBarTheKnown: who makes credentials up cannot keep a revocation from
func TestStrangersDoNotBarTheKnown(t *testing.T) {
	inBubble(t, CacheOptions{Entries: 10}, func(t *testing.T, c *cached) {
		c.want("known", false, 1)
		time.Sleep(DefaultCacheLife)
		c.provider.answers(takes(DefaultTimeout-1, denies))
		var wait sync.WaitGroup
		for i := range 1000 {
			wait.Go(func() {
				if _, err := c.identify(fmt.Sprint(i)); err == nil {
					t.Error("a stranger is known")
				}
			})
		}
		synctest.Wait()
		if _, err := c.identify("known"); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("a revocation is not noticed: error %v", err)
		}
		wait.Wait()
		c.tally.want(t, map[CacheResult]int{CacheAsked: 98, CacheBusy: 904})
		c.wantNoOutage()
	})
}

// wantNoOutage holds that the provider was never held to be out.
func (c *cached) wantNoOutage() {
	c.t.Helper()
	if len(c.tally.up) != 1 {
		c.t.Errorf("waiting was taken for an outage: up was %v", c.tally.up)
	}
}

// TestOutageEndsWaiting: who waits for a turn when the outage is noticed does not cost
// the provider, or the client, another timeout.
func TestOutageEndsWaiting(t *testing.T) {
	inBubble(t, CacheOptions{InFlight: 4}, func(t *testing.T, c *cached) {
		c.provider.answers(takes(time.Second, isOut))
		start := time.Now()
		var wait sync.WaitGroup
		for i := range 100 {
			wait.Go(func() {
				if _, err := c.identify(fmt.Sprint(i)); !errors.Is(err, errOut) {
					t.Errorf("error %v", err)
				}
			})
		}
		wait.Wait()
		if calls := c.provider.calls(); calls > 6 {
			t.Errorf("the provider was asked %d times", calls)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the last waited %v", took)
		}
	})
}
