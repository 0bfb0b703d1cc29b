package login

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/client"
)

// idToken is one that lives for some seconds by the provider's clock, which is years off.
func idToken(name string, life int) string {
	payload := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, name, 1_000_000, 1_000_000+life)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func gives(id, refresh string) answer {
	return ok(`{"access_token":"opaque","token_type":"Bearer","expires_in":86400,"id_token":"` + id + `","refresh_token":"` + refresh + `"}`)
}

// memory is a store without a disk.
type memory struct {
	mu       sync.Mutex // one update at a time
	keep     sync.Mutex // guards login
	login    Login
	beforeUp func() // what another process does before an update begins
}

func (m *memory) Load() (Login, error) {
	m.keep.Lock()
	defer m.keep.Unlock()
	return m.login, nil
}

func (m *memory) Update(_ context.Context, change func(Login) (Login, error)) (Login, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.beforeUp != nil {
		m.beforeUp()
	}
	l, _ := m.Load()
	changed, err := change(l)
	if err == nil {
		m.keep.Lock()
		m.login = changed
		m.keep.Unlock()
	}
	return changed, err
}

// loggedIn is a source with an ID token of ten minutes, of an hour ago or of now.
func loggedIn(t *testing.T, ago time.Duration, answers ...answer) (*provider, *memory, *Source) {
	p, c := newProvider(t, answers...)
	now := time.Now().Add(-ago)
	m := &memory{login: Login{
		Token: idToken("first", 600), Obtained: now, Expires: now.Add(10 * time.Minute), RefreshToken: refresh, Provider: hub(client.TypeIDToken),
	}}
	return p, m, NewSource(c, m)
}

func wantCredential(t *testing.T, s *Source, refused, want string) {
	t.Helper()
	got, err := s.Credential(t.Context(), refused)
	if err != nil || got != (client.Credential{Value: want, Type: client.TypeIDToken}) {
		t.Errorf("credential %+v, %v; want %s", got, err, want)
	}
}

func TestRenewOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := idToken("second", 300)
		p, m, s := loggedIn(t, time.Hour, gives(second, "ghr_second"))
		wantCredential(t, s, "", second)
		want := "/token?client_id=Iv1.app&grant_type=refresh_token&refresh_token=ghr_hunter2"
		if got := p.asked[0].path + "?" + p.asked[0].form.Encode(); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		if m.login.RefreshToken != "ghr_second" || m.login.Token != second {
			t.Errorf("kept %+v", m.login)
		}
		// The ID token's own life counts, from its receipt: the provider's clock is
		// years off, and expires_in is the access token's.
		if life := time.Until(m.login.Expires); life != 5*time.Minute {
			t.Errorf("the token is taken to live for %v, want 5 m", life)
		}
	})
}

// TestRenewsOnlyWhatIsDue: neither too early nor when it is of no use.
func TestRenewsOnlyWhatIsDue(t *testing.T) {
	first, second := idToken("first", 600), idToken("second", 600)
	for name, tc := range map[string]struct {
		ago     time.Duration
		refused string
		change  func(*Login)
		renewed bool
	}{
		"new":                              {},
		"just before":                      {ago: 9*time.Minute - time.Second},
		"a minute before its end":          {ago: 9 * time.Minute, renewed: true},
		"long over":                        {ago: 24 * time.Hour, renewed: true},
		"long over, no refresh token":      {ago: 24 * time.Hour, change: func(l *Login) { l.RefreshToken = "" }},
		"never ends":                       {ago: 24 * time.Hour, change: func(l *Login) { l.Expires = time.Time{} }},
		"refused":                          {ago: 5 * time.Minute, refused: first, renewed: true},
		"refused, never ends":              {ago: 24 * time.Hour, refused: first, change: func(l *Login) { l.Expires = time.Time{} }, renewed: true},
		"refused at once":                  {ago: time.Minute, refused: first},
		"refused, our clock was set back":  {ago: -time.Hour, refused: first, renewed: true},
		"another was refused meanwhile":    {ago: time.Minute, refused: "older"},
		"lives for a minute, and is young": {ago: 50 * time.Second, change: func(l *Login) { l.Expires = l.Obtained.Add(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers []answer
				want := first
				if tc.renewed {
					answers, want = []answer{gives(second, "")}, second
				}
				p, m, s := loggedIn(t, tc.ago, answers...)
				if tc.change != nil {
					tc.change(&m.login)
				}
				wantCredential(t, s, tc.refused, want)
				if len(p.asked) != len(answers) {
					t.Errorf("renewed %d times, want %d", len(p.asked), len(answers))
				}
				if tc.renewed && m.login.RefreshToken != refresh {
					t.Errorf("the refresh token is %q, want the old one, as there is no new one", m.login.RefreshToken)
				}
			})
		})
	}
}

// TestRenewFails: an outage is never the end of a login.
func TestRenewFails(t *testing.T) {
	first := idToken("first", 600)
	out := []answer{{}, {status: 503}, {status: 429}, refuse("temporarily_unavailable"), ok("<html>"), {status: 302}, {status: 403, body: "<html>"}}
	ended := []answer{refuse("invalid_grant"), ok(`{"error":"bad_refresh_token"}`), refuse("invalid_client"), ok(`{"access_token":"opaque","token_type":"Bearer"}`)}
	synctest.Test(t, func(t *testing.T) {
		for i, a := range out {
			_, m, s := loggedIn(t, time.Hour, a, a)
			before := m.login
			wantCredential(t, s, "", first) // the issuer may know it still
			if _, err := s.Credential(t.Context(), first); err == nil || errors.Is(err, ErrEnded) {
				t.Errorf("outage %d: error %v, want one that is not the end", i, err)
			}
			if m.login != before {
				t.Errorf("outage %d changed the login", i)
			}
		}
		for _, a := range ended {
			for _, refused := range []string{"", first} {
				_, _, s := loggedIn(t, time.Hour, a)
				_, err := s.Credential(t.Context(), refused)
				wantError(t, err, "run `ghostline login`")
				if !errors.Is(err, ErrEnded) {
					t.Errorf("error %v, want ErrEnded", err)
				}
			}
		}
	})
}

// TestRenewOnce: a refresh token may be good only once, and providers end a login
// whose refresh token comes twice.
func TestRenewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := idToken("second", 600)
		p, m, s := loggedIn(t, time.Hour, gives(second, ""))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { wantCredential(t, s, "", second) })
		}
		all.Wait()
		if len(p.asked) != 1 {
			t.Errorf("renewed %d times, want once", len(p.asked))
		}
		// So it is if another process was faster.
		third := idToken("third", 600)
		time.Sleep(time.Hour)
		m.beforeUp = func() {
			m.login.Token, m.login.Obtained, m.login.Expires = third, time.Now(), time.Now().Add(time.Hour)
		}
		wantCredential(t, s, "", third)
	})
}

func TestLifeOfJWT(t *testing.T) {
	payload := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for token, want := range map[string]time.Duration{
		idToken("x", 90):                       90 * time.Second,
		payload(`{"iat":1.5,"exp":3}`):         1500 * time.Millisecond,
		payload(`{"iat":1,"exp":1e300}`):       maxLife,
		payload(`{"exp":100}`):                 0,
		payload(`{"iat":100}`):                 0,
		payload(`{"iat":100,"exp":100}`):       0,
		payload(`{"iat":"1","exp":"2"}`):       0,
		payload(`[1]`):                         0,
		"gho_opaque":                           0,
		"a.b.c":                                0,
		"e30.!!.x":                             0,
		strings.Repeat(".", 1_000):             0,
		payload(`{"iat":100,"exp":50}`) + ".x": 0,
	} {
		if got := lifeOfJWT(token); got != want {
			t.Errorf("%.60s: %v, want %v", token, got, want)
		}
	}
}
