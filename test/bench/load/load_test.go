package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
)

const threeEvents = "data: a\n\ndata: b\n\ndata: c\n\n" + done

// serve answers on loopback, with TLS if config is not nil, and returns where.
func serve(t *testing.T, config *tls.Config, h http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: h, TLSConfig: config, Protocols: new(http.Protocols),
		// Small enough that a large body has to wait for the window.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 128 << 10},
	}
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if config != nil {
			_ = server.ServeTLS(listener, "", "") // it ends when it is closed
		} else {
			_ = server.Serve(listener)
		}
	}()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return listener.Addr().String()
}

func connect(t *testing.T, n int, addr string, secure *tls.Config) []*Conn {
	t.Helper()
	conns, err := Target{Addr: addr, TLS: secure, Header: func(n int) []Field { return []Field{{"x-connection", strconv.Itoa(n)}} }}.DialAll(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseAll(conns) })
	return conns
}

func request(body string) *Request {
	return &Request{Path: "/v1/completions", Header: []Field{{"authorization", "Bearer x"}}, IDHeader: "x-request-id", Body: []byte(body), Events: 3}
}

// inPieces writes an answer in pieces of a few bytes, so that its events are cut anywhere.
func inPieces(w http.ResponseWriter, text string, size int) {
	for len(text) > 0 {
		n := min(size, len(text))
		_, _ = io.WriteString(w, text[:n])
		_ = http.NewResponseController(w).Flush()
		text = text[n:]
	}
}

func TestClosedLoad(t *testing.T) {
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	trust := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}}
	for _, test := range []struct {
		name           string
		server, client *tls.Config
		body           int
		conns          int
	}{
		{"cleartext", nil, nil, 10, 1},
		{"TLS", certificate, trust, 10, 2},
		{"no body", nil, nil, 0, 1},
		{"bodies larger than the windows", nil, nil, 300 << 10, 2},
		{"more connections than requests at a time", nil, nil, 10, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := strings.Repeat("b", test.body)
			var got, wrong atomic.Int64
			var connections, ids sync.Map
			addr := serve(t, test.server, func(w http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				if err != nil || string(text) != body || r.Method != http.MethodPost || r.URL.Path != "/v1/completions" ||
					r.Header.Get("Authorization") != "Bearer x" || r.ContentLength != int64(test.body) || r.ProtoMajor != 2 {
					wrong.Add(1)
				}
				connections.Store(r.Header.Get("X-Connection"), true)
				if _, twice := ids.LoadOrStore(r.Header.Get("X-Request-Id"), true); twice {
					wrong.Add(1)
				}
				inPieces(w, threeEvents, int(1+got.Add(1)%20))
			})
			conns := connect(t, test.conns, addr, test.client)
			result, err := Closed{InFlight: 8, Most: 100, For: time.Minute}.Run(t.Context(), conns, request(body))
			if err != nil {
				t.Fatal(err)
			}
			if result.Requests != 100 || got.Load() != 100 || wrong.Load() != 0 || result.Cancelled != 0 || result.Rate() <= 0 {
				t.Errorf("%+v; the server got %d requests, %d of them wrong", result, got.Load(), wrong.Load())
			}
			for n := range test.conns {
				if _, used := connections.Load(strconv.Itoa(n)); !used {
					t.Errorf("connection %d had no request", n)
				}
			}
		})
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no unit", http.StatusServiceUnavailable) }, "status 503: no unit"},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "an answer without its end"},
		{"no end", func(w http.ResponseWriter, _ *http.Request) { inPieces(w, "data: a\n\n", 5) }, "an answer without its end"},
		{"an event too few", func(w http.ResponseWriter, _ *http.Request) { inPieces(w, "data: a\n\ndata: b\n\n"+done, 50) }, "an answer of 2 events; want 3"},
		{"a reset", func(w http.ResponseWriter, _ *http.Request) {
			inPieces(w, "data: a\n\n", 50)
			panic(http.ErrAbortHandler)
		}, "the stream was reset: INTERNAL_ERROR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			conns := connect(t, 1, serve(t, nil, test.answer), nil)
			_, err := Closed{InFlight: 2, Most: 10, For: time.Minute}.Run(t.Context(), conns, request("x"))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v; want %q", err, test.want)
			}
		})
	}
}

func TestALostConnectionIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inPieces(w, "data: a\n\n", 50)
		server.Close()
	})
	go func() { _ = server.Serve(listener) }()
	conns := connect(t, 2, listener.Addr().String(), nil)
	if _, err = (Closed{InFlight: 4, For: time.Minute}).Run(t.Context(), conns, request("x")); err == nil || !strings.Contains(err.Error(), "the connection ended") {
		t.Errorf("error %v; want that a connection ended", err)
	}
}

func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if _, err := (Target{Addr: listener.Addr().String()}).DialAll(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "connection 1 of 3") {
		t.Errorf("error %v", err)
	}
}

// TestCancels has every other request reset, which must reach the handler and leave
// the connections as they are.
func TestCancels(t *testing.T) {
	var whole, cancelled atomic.Int64
	addr := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		first, rest, _ := strings.Cut(threeEvents, "\n\n")
		inPieces(w, first+"\n\n", 50)
		// Who is to cancel does so now, and the others wait for the rest.
		if strings.Contains(r.Header.Get("Authorization"), "cancel") {
			<-r.Context().Done()
			cancelled.Add(1)
			return
		}
		inPieces(w, rest, 50)
		whole.Add(1)
	})
	conns := connect(t, 2, addr, nil)
	result, err := Closed{InFlight: 6, Most: 200, For: time.Minute, Cancels: true}.Run(t.Context(), conns, request("x"))
	if err != nil || result.Requests != 200 || result.Cancelled > 100 {
		t.Fatalf("%+v, %v", result, err)
	}
	hanging := request("x")
	hanging.Header = []Field{{"authorization", "cancel"}}
	for range 20 {
		pending, err := conns[0].Start(hanging)
		if err != nil {
			t.Fatal(err)
		}
		<-pending.First()
		pending.Cancel()
	}
	eventually(t, func() bool { return cancelled.Load() == 20 })
	if _, err := (Closed{InFlight: 2, Most: 10, For: time.Minute}).Run(t.Context(), conns, request("x")); err != nil {
		t.Errorf("after cancels: %v", err)
	}
}

func TestOpenLoad(t *testing.T) {
	const late = 5 * time.Millisecond
	addr := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(late)
		inPieces(w, threeEvents, 50)
	})
	conns := connect(t, 2, addr, nil)
	times, err := Open{Rate: 500, For: 200 * time.Millisecond, MaxInFlight: 1000}.Run(t.Context(), conns, request("x"))
	if err != nil || len(times) != 100 {
		t.Fatalf("%d first bytes, %v; want 100", len(times), err)
	}
	for _, took := range times {
		if took < late {
			t.Errorf("a first byte after %s that was held back for %s", took, late)
		}
	}
}

func TestAnOpenLoadThatIsTooMuch(t *testing.T) {
	release := make(chan struct{})
	addr := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		<-release
		inPieces(w, threeEvents, 50)
	})
	conns := connect(t, 1, addr, nil)
	go func() {
		eventually(t, func() bool { return conns[0].inFlight() == 10 })
		close(release)
	}()
	_, err := Open{Rate: 10_000, For: time.Second, MaxInFlight: 10}.Run(t.Context(), conns, request("x"))
	if !errors.Is(err, ErrOverloaded) {
		t.Errorf("error %v; want ErrOverloaded", err)
	}
}

func TestALoadEndsWithItsContext(t *testing.T) {
	addr := serve(t, nil, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	conns := connect(t, 1, addr, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, func() bool { return conns[0].inFlight() == 3 })
		cancel()
	}()
	if _, err := (Closed{InFlight: 3, For: time.Minute}).Run(ctx, conns, request("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want context.Canceled", err)
	}
}

func (c *Conn) inFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Error("it does not come about")
			return
		}
		time.Sleep(time.Millisecond)
	}
}
