package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTokenClockWrongByAnHour: a clock that is wrong all the time changes nothing, and
// one that is put right while a token lives costs one exchange at most.
func TestTokenClockWrongByAnHour(t *testing.T) {
	for name, test := range map[string]struct {
		at, corrected time.Duration // the clock's error from the start, and after a minute
		want          string        // of the token then
	}{
		"an hour fast":             {time.Hour, time.Hour, "token-1"},
		"an hour slow":             {-time.Hour, -time.Hour, "token-1"},
		"fast, then put right":     {time.Hour, 0, "token-1"},
		"slow, then put right":     {-time.Hour, 0, "token-2"},
		"right, then an hour fast": {0, time.Hour, "token-2"},
		"right, then an hour slow": {0, -time.Hour, "token-1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{}
				s, offset := i.source(t, new(logBuffer))
				offset.Store(int64(test.at))
				mustToken(t, s, "token-1")
				time.Sleep(time.Minute)
				offset.Store(int64(test.corrected))
				for range 1000 {
					mustToken(t, s, test.want)
				}
				// From here on the clock goes as it should: up to 85 % of 1,500 s.
				before := i.exchanges.Load()
				time.Sleep(testLife*75/100 - 2*time.Minute)
				synctest.Wait()
				if n := i.exchanges.Load(); n != before {
					t.Errorf("%d exchanges more before a refresh is due", n-before)
				}
				time.Sleep(testLife*15/100 + 2*time.Minute)
				synctest.Wait()
				if n := i.exchanges.Load(); n != before+1 {
					t.Errorf("%d exchanges when a refresh is due, want 1", n-before)
				}
			})
		})
	}
}

// TestTokenAfterSleepIsAskedForOnce: everything wakes at once.
func TestTokenAfterSleepIsAskedForOnce(t *testing.T) {
	for name, slept := range map[string]time.Duration{"due": testLife * 9 / 10, "over": 8 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{took: time.Second}
				s, offset := i.source(t, new(logBuffer))
				mustToken(t, s, "token-1")
				offset.Store(int64(slept))
				var callers sync.WaitGroup
				for range 1000 {
					callers.Go(func() {
						if _, err := s.Token(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				callers.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				mustToken(t, s, "token-2")
				if n := i.exchanges.Load(); n != 2 {
					t.Errorf("%d exchanges, want 2", n)
				}
			})
		})
	}
}

// TestTokenSleepDuringExchange: the life of a token counts from before the sleep, for
// it may have been made before it.
func TestTokenSleepDuringExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: 2 * time.Second}
		s, offset := i.source(t, new(logBuffer))
		time.AfterFunc(time.Second, func() { offset.Store(int64(8 * time.Hour)) })
		mustToken(t, s, "token-1") // to who waits; whether it is good the proxy says
		mustToken(t, s, "token-2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := i.exchanges.Load(); n != 2 {
			t.Errorf("%d exchanges, want 2", n)
		}
	})
}

// TestTokenIssuerDownForTenMinutes: an editor that asks each second.
func TestTokenIssuerDownForTenMinutes(t *testing.T) {
	const outage = 10 * time.Minute
	for name, test := range map[string]struct {
		from    time.Duration // of the token's life, which is 25 minutes
		refresh time.Duration // when it is due
		failed  time.Duration // how long there is no token, at least
	}{
		"before the token's end": {12 * time.Minute, 12*time.Minute + time.Second, 0},
		"over the token's end":   {18 * time.Minute, 20 * time.Minute, 3 * time.Minute},
		"from the start on":      {0, 20 * time.Minute, outage},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				i := &issuer{refreshIn: test.refresh}
				s, _ := i.source(t, &log)
				start := time.Now()
				var failed, attempts int
				var recovered time.Duration
				for at := time.Duration(0); at < 40*time.Minute; at = time.Since(start) {
					down := at >= test.from && at < test.from+outage
					i.refusal.Store(nil)
					if down {
						i.fail(0, "", "")
					}
					before := i.exchanges.Load()
					token, err := s.Token(t.Context())
					switch {
					case err != nil:
						failed++
					case at >= test.from+outage && token != "token-1" && recovered == 0:
						recovered = at - test.from - outage
					}
					time.Sleep(time.Second)
					synctest.Wait()
					if down {
						attempts += int(i.exchanges.Load() - before)
					}
				}
				// The backoff is a minute at most, and the last failure may be at the end.
				if got := time.Duration(failed) * time.Second; got < test.failed || got > test.failed+time.Minute+time.Second || test.failed == 0 && got > 0 {
					t.Errorf("no token for %v, want %v to a minute more", got, test.failed)
				}
				if recovered > time.Minute+time.Second {
					t.Errorf("recovered after %v, want a minute at most", recovered)
				}
				// Doubled from a second to a minute, halved by jitter at most.
				if attempts < 10 || attempts > 27 {
					t.Errorf("%d attempts during the outage, want 10 to 27", attempts)
				}
				if kept := strings.Contains(log.String(), "keeping the old token"); kept != (test.from > 0) {
					t.Errorf("the log tells that the old token is kept: %t", kept)
				}
			})
		})
	}
}

// TestTokenTriesAgain: an issuer that is busy is asked again, and not before it says.
func TestTokenTriesAgain(t *testing.T) {
	for _, test := range []struct {
		status     int
		retryAfter string
		from, to   time.Duration
	}{
		{http.StatusTooManyRequests, "100", 100 * time.Second, 111 * time.Second},
		{http.StatusServiceUnavailable, "100", 100 * time.Second, 111 * time.Second},
		{http.StatusTooManyRequests, "", firstBackoff / 2, firstBackoff},
		{http.StatusServiceUnavailable, "", firstBackoff / 2, firstBackoff},
		{http.StatusServiceUnavailable, "99999", 10 * time.Minute, 11*time.Minute + time.Second},
		{http.StatusBadGateway, "", firstBackoff / 2, firstBackoff},
	} {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d after %q, a token held: %t", test.status, test.retryAfter, held), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					i := &issuer{refreshIn: testLife / 2}
					s, _ := i.source(t, new(logBuffer))
					before := int64(1)
					if held {
						mustToken(t, s, "token-1")
						before = 2
						i.fail(test.status, "busy", test.retryAfter)
						time.Sleep(testLife / 2)
						synctest.Wait()
						mustToken(t, s, "token-1")
					} else {
						i.fail(test.status, "busy", test.retryAfter)
						if token, err := s.Token(t.Context()); err == nil {
							t.Fatalf("token %q", token)
						}
					}
					i.refusal.Store(nil)
					time.Sleep(test.from - time.Millisecond)
					synctest.Wait()
					_, _ = s.Token(t.Context())
					if n := i.exchanges.Load(); n != before {
						t.Fatalf("asked again too early: %d exchanges", n)
					}
					time.Sleep(test.to - test.from + 2*time.Millisecond)
					synctest.Wait()
					mustToken(t, s, fmt.Sprintf("token-%d", before+1))
				})
			})
		}
	}
}

// TestTokenCancelledWaiters: those that leave get their own error at once, and the
// exchange is there for those that stay and those that come.
func TestTokenCancelledWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: time.Second}
		s, _ := i.source(t, new(logBuffer))
		start := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if _, err := s.Token(ctx); !errors.Is(err, context.Canceled) || time.Since(start) != time.Millisecond {
					t.Errorf("error %v after %v, want the context's at once", err, time.Since(start))
				}
			})
		}
		time.Sleep(time.Millisecond)
		leave()
		callers.Wait()
		time.Sleep(2 * time.Second)
		mustToken(t, s, "token-1")
		if n := i.exchanges.Load(); n != 1 {
			t.Errorf("%d exchanges, want 1", n)
		}
	})
}

// TestTokenCloseDuringRefresh: nobody waits for an exchange in the background, and it
// ends with the source.
func TestTokenCloseDuringRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{refreshIn: testLife / 2, then: time.Hour}
		s, _ := i.source(t, new(logBuffer))
		mustToken(t, s, "token-1")
		time.Sleep(testLife/2 + time.Second)
		before := time.Now()
		s.Close()
		if took := time.Since(before); took > 0 {
			t.Errorf("Close took %v", took)
		}
		if _, err := s.Token(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}
