package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

const (
	connectTimeout = 10 * time.Second
	// An unanswered PING tells that a connection died without a word.
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// Protocol is how to speak to a target.
type Protocol string

// The protocols. HTTP/1.1 has no stream resets: there a cancel closes the
// connection, and the next request opens another.
const (
	ProtocolAuto Protocol = "auto" // https: HTTP/2, else HTTP/1.1, by ALPN; http: h2c
	ProtocolH1   Protocol = "h1"   // HTTP/1.1
	ProtocolH2   Protocol = "h2"   // HTTP/2 over TLS and nothing else
	ProtocolH2C  Protocol = "h2c"  // HTTP/2 in clear text by prior knowledge
)

// Protocols lists them all.
func Protocols() []Protocol { return []Protocol{ProtocolAuto, ProtocolH1, ProtocolH2, ProtocolH2C} }

// target is what all users share of the server.
type target struct {
	url       *url.URL // of completions
	addr      string
	transport *http.Transport // makes connections; its pool is never used
	distance  *distance
}

func newTarget(t Target, rtt time.Duration) (*target, error) {
	u, err := completionsURL(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	protocols, err := httpProtocols(t.Protocol, u.Scheme)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	d := &distance{rtt: rtt}
	transport := &http.Transport{
		DialContext:         d.dial,
		TLSClientConfig:     &tls.Config{RootCAs: t.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: connectTimeout + 2*rtt,
		DisableCompression:  true, // a compressed stream arrives in bursts
		Protocols:           protocols,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout + rtt},
	}
	if u.Scheme == "https" {
		transport.Proxy = http.ProxyFromEnvironment
	}
	if t.Protocol == ProtocolH2 {
		transport.TLSClientConfig.VerifyConnection = requireHTTP2
	}
	if protocols.HTTP2() || protocols.UnencryptedHTTP2() {
		// The engine of x/net rather than the toolchain's copy, for its typed errors.
		//lint:ignore SA1019 what it advises instead is the toolchain's copy
		if _, err := http2.ConfigureTransports(transport); err != nil {
			return nil, fmt.Errorf("HTTP/2 client: %w", err)
		}
	}
	return &target{url: u, addr: hostPort(u), transport: transport, distance: d}, nil
}

// connect opens a connection.
func (t *target) connect(ctx context.Context) (*http.ClientConn, error) {
	limit := connectTimeout + 4*t.distance.rtt
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	conn, err := t.transport.NewClientConn(ctx, t.url.Scheme, t.addr)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s://%s: %w", t.url.Scheme, t.addr, err)
	}
	return conn, nil
}

// wait waits for what is still on its way to closed connections.
func (t *target) wait() { t.distance.closing.Wait() }

// requireHTTP2 refuses HTTP/1.1.
func requireHTTP2(state tls.ConnectionState) error {
	if state.NegotiatedProtocol != http2.NextProtoTLS {
		return errors.New("the server does not speak HTTP/2 (ALPN h2); if it is to be measured over HTTP/1.1, ask for h1")
	}
	return nil
}

func httpProtocols(p Protocol, scheme string) (*http.Protocols, error) {
	var enabled http.Protocols
	switch {
	case p != "" && !slices.Contains(Protocols(), p):
		return nil, fmt.Errorf("protocol %q is unknown; there are %v", p, Protocols())
	case p == ProtocolH2 && scheme == "http":
		return nil, errors.New("protocol h2 needs an https:// URL; for http:// it is h2c")
	case p == ProtocolH2C && scheme == "https":
		return nil, errors.New("protocol h2c needs an http:// URL; for https:// it is h2")
	case p == ProtocolH1:
		enabled.SetHTTP1(true)
	case scheme == "http":
		enabled.SetUnencryptedHTTP2(true)
	default:
		enabled.SetHTTP2(true)
		// Offered with h2 too: a server without it can then be told from one that is broken.
		enabled.SetHTTP1(true)
	}
	return &enabled, nil
}

// completionsURL is the URL that completions are asked at: raw if it is one, else
// what follows from a base URL with or without the version.
func completionsURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		// url.Error repeats the URL, which may hold a password.
		return nil, errors.New("the URL cannot be parsed; it should look like https://completions.example.com")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, fmt.Errorf("the URL %q should look like https://completions.example.com", u.Redacted())
	case u.User != nil, u.Fragment != "":
		return nil, fmt.Errorf("the URL %q must have no user and no fragment", u.Redacted())
	}
	path := strings.TrimRight(u.Path, "/")
	switch {
	case strings.HasSuffix(path, "/completions"):
		return u, nil
	case u.RawQuery != "":
		return nil, fmt.Errorf("the URL %q has a query, which only the URL of completions itself may have: end its path in /completions", u.Redacted())
	case strings.HasSuffix(path, "/v1"):
		u.Path = path + "/completions"
	default:
		u.Path = path + "/v1/completions"
	}
	return u, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
