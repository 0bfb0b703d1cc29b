package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testLife  = 1500 * time.Second
	testOAuth = "gho_secret"
)

// issuer answers exchanges in a synctest bubble: token-1, token-2, ...
type issuer struct {
	took      time.Duration
	then      time.Duration // took by all exchanges but the first, if not 0
	refreshIn time.Duration
	exchanges atomic.Int64
	refusal   atomic.Pointer[refusal]
}

type refusal struct {
	status     int
	body       string
	retryAfter string
}

func (i *issuer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkExchange(req); err != nil {
		return nil, err
	}
	took := i.took
	if i.then > 0 && i.exchanges.Load() > 0 {
		took = i.then
	}
	select {
	case <-time.After(took):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	n := i.exchanges.Add(1)
	if r := i.refusal.Load(); r != nil {
		if r.status == 0 {
			return nil, errors.New("no route to host")
		}
		return response(r.status, r.body, r.retryAfter), nil
	}
	body, err := json.Marshal(map[string]any{
		"access_token": fmt.Sprintf("token-%d", n), "token_type": "bearer",
		"expires_in": testLife.Seconds(), "refresh_in": i.refreshIn.Seconds(),
		"expires_at": 1, // of a clock that is decades off
	})
	return response(http.StatusOK, string(body), ""), err
}

func response(status int, body, retryAfter string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	if retryAfter != "" {
		resp.Header.Set("Retry-After", retryAfter)
	}
	if status == http.StatusFound {
		resp.Header.Set("Location", "https://elsewhere.example/")
	}
	return resp
}

// checkExchange holds the request against RFC 8693 section 2.1.
func checkExchange(req *http.Request) error {
	if err := req.ParseForm(); err != nil {
		return err
	}
	for name, want := range map[string]string{
		"grant_type":         "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token":      testOAuth,
		"subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
	} {
		if got := req.PostForm.Get(name); got != want || req.URL.Path != "/base/oauth/token" {
			return fmt.Errorf("%s: %s is %q, want %q", req.URL.Path, name, got, want)
		}
	}
	return nil
}

func (i *issuer) fail(status int, body, retryAfter string) {
	i.refusal.Store(&refusal{status, body, retryAfter})
}

// logBuffer is a log that is read while a refresh in the background may write it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// source makes a TokenSource on i whose wall clock can be set by offset.
func (i *issuer) source(t *testing.T, log *logBuffer) (s *TokenSource, offset *atomic.Int64) {
	t.Helper()
	s, err := NewTokenSource(TokenOptions{
		IssuerURL:  "https://issuer.example/base/",
		OAuthToken: testOAuth,
		Log:        slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.exchanger.http.Transport = i
	offset = new(atomic.Int64)
	s.clock.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(offset.Load())) }
	t.Cleanup(func() {
		s.Close()
		if strings.Contains(log.String(), testOAuth) || strings.Contains(log.String(), "token-") {
			t.Errorf("a token is in the log:\n%s", log)
		}
	})
	return s, offset
}

func mustToken(t *testing.T, s *TokenSource, want string) {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil || got != want {
		t.Fatalf("token %q, %v; want %q", got, err, want)
	}
}

func TestTokenRefreshInTheBackground(t *testing.T) {
	for name, test := range map[string]struct {
		refreshIn time.Duration
		from, to  float64 // of the token's life
	}{
		"own choice":          {0, 0.75, 0.85},
		"as the issuer asks":  {testLife / 2, 0.5, 0.5},
		"asked too late":      {testLife + time.Minute, 0.75, 0.85},
		"asked too early":     {time.Second, 0.75, 0.85},
		"asked for the past ": {-time.Minute, 0.75, 0.85},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{refreshIn: test.refreshIn}
				s, _ := i.source(t, new(logBuffer))
				mustToken(t, s, "token-1")
				time.Sleep(time.Duration(test.from*float64(testLife)) - time.Second)
				synctest.Wait()
				if n := i.exchanges.Load(); n != 1 {
					t.Fatalf("refreshed too early: %d exchanges", n)
				}
				time.Sleep(time.Duration((test.to-test.from)*float64(testLife)) + 2*time.Second)
				synctest.Wait()
				if n := i.exchanges.Load(); n != 2 {
					t.Fatalf("%d exchanges, want 2: refreshed once, without a caller", n)
				}
				mustToken(t, s, "token-2")
			})
		})
	}
}

func TestTokenRefreshPointIsSpread(t *testing.T) {
	var early, late bool
	for range 1000 {
		at := refreshAfter(grant{life: testLife})
		early = early || at < testLife*78/100
		late = late || at > testLife*82/100
	}
	if !early || !late {
		t.Error("refreshes are not spread over 75 to 85 % of the life")
	}
}

func TestTokenSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: time.Second}
		s, _ := i.source(t, new(logBuffer))
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() { mustToken(t, s, "token-1") })
		}
		callers.Wait()
		if n := i.exchanges.Load(); n != 1 {
			t.Errorf("%d exchanges, want 1", n)
		}
	})
}

// A caller that leaves takes nobody else's exchange with it.
func TestTokenCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: time.Second}
		s, _ := i.source(t, new(logBuffer))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Token(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v, want the context's", err)
		}
		mustToken(t, s, "token-1")
		if n := i.exchanges.Load(); n != 1 {
			t.Errorf("%d exchanges, want 1", n)
		}
	})
}

func TestTokenFailureKeepsTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		i := &issuer{}
		s, _ := i.source(t, &log)
		mustToken(t, s, "token-1")
		i.fail(0, "", "")
		time.Sleep(testLife - time.Second)
		synctest.Wait()
		mustToken(t, s, "token-1")
		// From 85 % on there are at least 225 s: doubling from a second up to a
		// minute, halved by jitter at most, leaves 6 to 16 attempts.
		if n := i.exchanges.Load() - 1; n < 6 || n > 16 {
			t.Errorf("%d attempts to refresh", n)
		}
		if !strings.Contains(log.String(), "keeping the old token") {
			t.Error("the failure is not in the log")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		before := i.exchanges.Load()
		if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("error %v, want the exchange's", err)
		}
		if n := i.exchanges.Load(); n != before+1 {
			t.Errorf("%d exchanges, want one for the caller and none while idle", n-before)
		}
		i.refusal.Store(nil)
		if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "next attempt in") {
			t.Errorf("error %v, want the backoff's", err)
		}
		time.Sleep(2 * maxBackoff)
		if _, err := s.Token(t.Context()); err != nil {
			t.Errorf("no recovery: %v", err)
		}
	})
}

func TestTokenRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		s, _ := i.source(t, new(logBuffer))
		i.fail(http.StatusServiceUnavailable, "busy", "100")
		for range 100 {
			if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "try again in 1m40s") {
				t.Fatalf("error %v", err)
			}
		}
		time.Sleep(99 * time.Second)
		_, _ = s.Token(t.Context())
		if n := i.exchanges.Load(); n != 1 {
			t.Fatalf("%d exchanges before Retry-After was over, want 1", n)
		}
		i.refusal.Store(nil)
		time.Sleep(12 * time.Second)
		mustToken(t, s, "token-2")
	})
}

// A laptop that sleeps stops the monotonic clock, and every timer with it.
func TestTokenAfterSleep(t *testing.T) {
	for name, test := range map[string]struct {
		slept      time.Duration
		first      string
		afterwards string
	}{
		"awake":                     {0, "token-1", "token-1"},
		"past the point of refresh": {testLife * 9 / 10, "token-1", "token-2"},
		"past the end":              {testLife, "token-2", "token-2"},
		"clock set back":            {-24 * time.Hour, "token-1", "token-1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{}
				s, offset := i.source(t, new(logBuffer))
				mustToken(t, s, "token-1")
				offset.Store(int64(test.slept))
				mustToken(t, s, test.first)
				synctest.Wait()
				mustToken(t, s, test.afterwards)
			})
		})
	}
}

// A clock that is set back does not prolong a token's life.
func TestTokenClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		s, offset := i.source(t, new(logBuffer))
		mustToken(t, s, "token-1")
		i.fail(0, "", "")
		offset.Store(int64(-24 * time.Hour))
		time.Sleep(testLife)
		if token, err := s.Token(t.Context()); err == nil {
			t.Errorf("token %q at the end of its life", token)
		}
	})
}

func TestTokenInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: time.Second}
		s, _ := i.source(t, new(logBuffer))
		mustToken(t, s, "token-1")
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				s.Invalidate("token-1")
				mustToken(t, s, "token-2")
			})
		}
		callers.Wait()
		s.Invalidate("token-1") // one who comes late with the old one
		mustToken(t, s, "token-2")
		if n := i.exchanges.Load(); n != 2 {
			t.Fatalf("%d exchanges, want 2", n)
		}
		// A proxy that refuses every token must not make requests exchanges.
		for range 1000 {
			s.Invalidate("token-2")
			mustToken(t, s, "token-2")
		}
		if n := i.exchanges.Load(); n != 2 {
			t.Fatalf("%d exchanges, want 2 within 30 s", n)
		}
		time.Sleep(forcedInterval)
		s.Invalidate("token-2")
		mustToken(t, s, "token-3")
	})
}

func TestTokenInvalidateWithoutIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: time.Second}
		s, _ := i.source(t, new(logBuffer))
		mustToken(t, s, "token-1")
		i.fail(0, "", "")
		s.Invalidate("token-1")
		mustToken(t, s, "token-1") // by the exchange that failed
		mustToken(t, s, "token-1")
		if n := i.exchanges.Load(); n != 2 {
			t.Errorf("%d exchanges, want 2", n)
		}
	})
}

func TestTokenClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{took: time.Hour}
		s, _ := i.source(t, new(logBuffer))
		failed := make(chan error)
		go func() {
			_, err := s.Token(t.Context())
			failed <- err
		}()
		synctest.Wait()
		s.Close()
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting caller got %v, want ErrClosed", err)
		}
		if _, err := s.Token(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
		s.Invalidate("token-1")
		s.Close()
	})
}
