package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// running is a server that runs until stop or the end of the test.
type running struct {
	*Server
	stop  context.CancelFunc
	ended chan error
}

func run(t *testing.T, s *Server) *running {
	t.Helper()
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.Listener = listen(t)
	ctx, stop := context.WithCancel(t.Context())
	r := &running{Server: s, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- s.Run(ctx) }()
	return r
}

// awaitClosed returns when no connection is taken any more: it drains.
func (r *running) awaitClosed() {
	for {
		conn, err := net.Dial("tcp", r.Listener.Addr().String())
		if err != nil {
			return
		}
		conn.Close()
	}
}

func (r *running) url() string {
	if r.TLS != nil {
		return "https://" + r.Listener.Addr().String()
	}
	return "http://" + r.Listener.Addr().String()
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

// client speaks exactly the given protocols.
func client(t *testing.T, ca *localca.CA, set func(*http.Protocols)) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	set(transport.Protocols)
	if ca != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: ca.Pool()}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(ctx context.Context, c *http.Client, url string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func proto(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }

func h1(p *http.Protocols)  { p.SetHTTP1(true) }
func h2(p *http.Protocols)  { p.SetHTTP2(true) }
func h2c(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }

// newCA is a new authority, and what a server needs to be trusted by it.
func newCA(t *testing.T) (*localca.CA, *tls.Config) {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	return ca, server
}

func TestProtocols(t *testing.T) {
	ca, serverTLS := newCA(t)
	for _, tc := range []struct {
		name string
		tls  *tls.Config
		set  func(*http.Protocols)
		want string
	}{
		{"h2", serverTLS, h2, "HTTP/2.0"},
		{"h1 over TLS", serverTLS, h1, "HTTP/1.1"},
		{"both over TLS", serverTLS, func(p *http.Protocols) { h1(p); h2(p) }, "HTTP/2.0"},
		{"h2c", nil, h2c, "HTTP/2.0"},
		{"h1", nil, h1, "HTTP/1.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, &Server{TLS: tc.tls, Handler: http.HandlerFunc(proto)})
			c := client(t, ca, tc.set)
			if _, got, err := get(t.Context(), c, r.url()); got != tc.want || err != nil {
				t.Errorf("got %q, error %v; want %s", got, err, tc.want)
			}
			c.CloseIdleConnections()
			r.stop()
			if err := receive(t, r.ended); err != nil {
				t.Errorf("a clean end: %v", err)
			}
		})
	}
	if serverTLS.NextProtos != nil {
		t.Errorf("the caller's TLS configuration was changed: %v", serverTLS.NextProtos)
	}
}

func TestMaxHeaderBytes(t *testing.T) {
	r := run(t, &Server{Handler: http.HandlerFunc(proto), MaxHeaderBytes: 4 << 10})
	defer func() { r.stop(); receive(t, r.ended) }()
	for _, set := range []func(*http.Protocols){h1, h2c} {
		c := client(t, nil, set)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", strings.Repeat("a", 64<<10))
		resp, err := c.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s: status %d, want 431", c.Transport.(*http.Transport).Protocols, resp.StatusCode)
			}
		}
		c.CloseIdleConnections()
	}
}

// held is a handler whose requests wait.
type held struct {
	arrived, open chan struct{}
	cut           atomic.Int32
}

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.arrived <- struct{}{}
	select {
	case <-h.open:
		_, _ = io.WriteString(w, "done")
	case <-r.Context().Done():
		h.cut.Add(1)
	}
}

// holdOne sends a request that waits in the handler, and returns its end.
func holdOne(t *testing.T, r *running, h *held, set func(*http.Protocols)) <-chan error {
	t.Helper()
	c, errs := client(t, nil, set), make(chan error, 1)
	go func() {
		_, body, err := get(context.WithoutCancel(t.Context()), c, r.url())
		if err == nil && body != "done" {
			err = errors.New("the answer is cut: " + body)
		}
		c.CloseIdleConnections()
		errs <- err
	}()
	receive(t, h.arrived)
	return errs
}

func TestDrainLetsRequestsFinish(t *testing.T) {
	for name, set := range map[string]func(*http.Protocols){"h1": h1, "h2c": h2c} {
		t.Run(name, func(t *testing.T) {
			h := &held{arrived: make(chan struct{}), open: make(chan struct{})}
			r := run(t, &Server{Handler: h, Drain: func() time.Duration { return time.Minute }})
			errs := holdOne(t, r, h, set)
			r.drainsFor(t, h, errs)
		})
	}
}

// drainsFor drains, which must wait for the request that h holds.
func (r *running) drainsFor(t *testing.T, h *held, request <-chan error) {
	t.Helper()
	r.stop()
	r.awaitClosed()
	select {
	case err := <-r.ended:
		t.Fatalf("it ended while a request ran: %v", err)
	default:
	}
	close(h.open)
	if err := receive(t, request); err != nil {
		t.Errorf("the running request: %v", err)
	}
	if err := receive(t, r.ended); err != nil {
		t.Errorf("a clean drain: %v", err)
	}
}

func TestCutAfterDrain(t *testing.T) {
	for name, set := range map[string]func(*http.Protocols){"h1": h1, "h2c": h2c} {
		t.Run(name, func(t *testing.T) {
			h := &held{arrived: make(chan struct{}), open: make(chan struct{})}
			r := run(t, &Server{Name: "test", Handler: h, Drain: func() time.Duration { return 20 * time.Millisecond }})
			errs := holdOne(t, r, h, set)
			r.stop()
			err := receive(t, r.ended)
			if err == nil || !strings.Contains(err.Error(), "listener test: requests still running at the end of the drain were cut") {
				t.Errorf("error %v", err)
			}
			if err := receive(t, errs); err == nil {
				t.Error("the request that was cut succeeded")
			}
		})
	}
}

// TestDrainIsReadLate: what may change while the server runs holds as it is when
// the drain begins.
func TestDrainIsReadLate(t *testing.T) {
	h := &held{arrived: make(chan struct{}), open: make(chan struct{})}
	var drain atomic.Int64
	drain.Store(int64(time.Hour))
	r := run(t, &Server{Handler: h, Drain: func() time.Duration { return time.Duration(drain.Load()) }})
	errs := holdOne(t, r, h, h2c)
	drain.Store(int64(time.Millisecond))
	r.stop()
	if err := receive(t, r.ended); err == nil {
		t.Error("the request that still ran was not cut")
	}
	receive(t, errs)
}

func TestListenerFails(t *testing.T) {
	listener := listen(t)
	listener.Close()
	err := (&Server{Name: "test", Listener: listener, Handler: http.HandlerFunc(proto), Log: slog.New(slog.DiscardHandler)}).Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "listener test: ") {
		t.Errorf("error %v", err)
	}
}

// TestRunAllStopsAll has one server fail: the other one stops.
func TestRunAllStopsAll(t *testing.T) {
	good, bad := listen(t), listen(t)
	bad.Close()
	log := slog.New(slog.DiscardHandler)
	ended := make(chan error, 1)
	go func() {
		ended <- RunAll(t.Context(),
			&Server{Name: "good", Listener: good, Handler: http.HandlerFunc(proto), Log: log},
			&Server{Name: "bad", Listener: bad, Handler: http.HandlerFunc(proto), Log: log})
	}()
	if err := receive(t, ended); err == nil || !strings.HasPrefix(err.Error(), "listener bad: ") {
		t.Errorf("error %v", err)
	}
	if _, err := net.Dial("tcp", good.Addr().String()); err == nil {
		t.Error("the good listener is still open")
	}
}

func TestConnHooks(t *testing.T) {
	type connKey struct{}
	states := make(chan http.ConnState, 100)
	r := run(t, &Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Context().Value(connKey{}).(string))
		}),
		ConnState: func(_ net.Conn, state http.ConnState) { states <- state },
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, "of the connection")
		},
	})
	c := client(t, nil, h2c)
	if _, got, err := get(t.Context(), c, r.url()); got != "of the connection" || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
	if state := receive(t, states); state != http.StateNew {
		t.Errorf("the first state is %s", state)
	}
	c.CloseIdleConnections()
	for receive(t, states) != http.StateClosed {
	}
	r.stop()
	receive(t, r.ended)
}

func TestListeners(t *testing.T) {
	_, certificate := newCA(t)
	a, b, c := listen(t), listen(t), listen(t)
	for _, tc := range []struct {
		name      string
		listeners Listeners
		wantError string
		want      []string // names of the traffic servers
	}{
		{"none", Listeners{}, "no listener for traffic, neither TLS nor cleartext", nil},
		{"only admin", Listeners{Admin: c}, "no listener for traffic, neither TLS nor cleartext", nil},
		{"TLS without a certificate", Listeners{TLS: a}, "a TLS listener needs a certificate", []string{"tls"}},
		{"TLS", Listeners{TLS: a, Certificate: certificate}, "", []string{"tls"}},
		{"cleartext", Listeners{Cleartext: b}, "", []string{"cleartext"}},
		{"all", Listeners{TLS: a, Certificate: certificate, Cleartext: b, Admin: c}, "", []string{"tls", "cleartext"}},
	} {
		err := tc.listeners.Check()
		if got := ""; err != nil {
			if got = err.Error(); got != tc.wantError {
				t.Errorf("%s: error %q, want %q", tc.name, got, tc.wantError)
			}
		} else if tc.wantError != "" {
			t.Errorf("%s: no error, want %q", tc.name, tc.wantError)
		}
		servers := tc.listeners.Traffic(Server{Drain: func() time.Duration { return time.Hour }})
		var names []string
		for _, s := range servers {
			names = append(names, s.Name)
			if s.Drain() != time.Hour || (s.Name == "tls") != (s.TLS != nil) && tc.wantError == "" || s.Listener == nil {
				t.Errorf("%s: server %+v", tc.name, s)
			}
		}
		if strings.Join(names, " ") != strings.Join(tc.want, " ") {
			t.Errorf("%s: servers %v, want %v", tc.name, names, tc.want)
		}
	}
	Listeners{TLS: a, Cleartext: b, Admin: c}.Close()
	for _, listener := range []net.Listener{a, b, c} {
		if _, err := listener.Accept(); err == nil {
			t.Error("a listener is still open")
		}
	}
}
