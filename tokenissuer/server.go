package tokenissuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxHeaderBytes leaves room for a long OAuth token and an edge's headers.
const maxHeaderBytes = 32 << 10

// Options is an issuer to run.
type Options struct {
	Config Config
	// Listeners has at least one for exchanges. Its admin port answers /healthz,
	// /readyz and /metrics. Run closes them all.
	Listeners httpserver.Listeners
	Log       *slog.Logger
	// Metrics is where the issuer's metrics go; nil is a new registry.
	Metrics *prometheus.Registry
}

// server is a running issuer.
type server struct {
	config       Config
	providers    []identity.Provider
	entitlements *entitlements
	limits       *limits
	edges        edges
	ring         keys.Ring
	metrics      *metrics
	log          *slog.Logger
	now          func() time.Time
}

// Run serves until ctx is done and running exchanges are answered, and then
// returns nil. The error is service.ErrConfig if the issuer could not start.
func Run(ctx context.Context, o Options) error {
	s, servers, err := build(o)
	if err != nil {
		o.Listeners.Close()
		return fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	// What is watched is watched until the last exchange is answered.
	watching, served := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer served()
	background.Go(func() { s.entitlements.watch(watching) })
	return errors.Join(httpserver.RunAll(ctx, servers...), closeProviders(s.providers))
}

func build(o Options) (*server, []*httpserver.Server, error) {
	if err := o.Listeners.Check(); err != nil {
		return nil, nil, err
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	s, err := newServer(o)
	if err != nil {
		return nil, nil, err
	}
	handler, err := s.handler()
	if err != nil {
		return nil, nil, errors.Join(err, closeProviders(s.providers))
	}
	servers := o.Listeners.Traffic(httpserver.Server{Handler: handler, Log: o.Log, MaxHeaderBytes: maxHeaderBytes})
	if admin := o.Listeners.Admin; admin != nil {
		servers = append(servers, &httpserver.Server{Name: "admin", Listener: admin, Handler: s.adminHandler(o.Metrics), Log: o.Log})
	}
	return s, servers, nil
}

func newServer(o Options) (*server, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	s := &server{config: o.Config, log: o.Log, now: time.Now, edges: newEdges(o.Config.TrustedEdges)}
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, closeProviders(s.providers))
	}
	s.metrics.keys.Set(float64(s.ring.Public.Len()))
	o.Log.Info("signing", "kid", s.ring.Signer.KeyID, "published", s.ring.Public.IDs())
	return s, nil
}

// open makes what the server stands on.
func (s *server) open(o Options) (err error) {
	if s.metrics, err = newMetrics(o.Metrics); err != nil {
		return err
	}
	for _, p := range o.Config.IdentityProviders {
		provider, err := newProvider(p, o.Log, s.metrics.providers)
		if err != nil {
			return fmt.Errorf("identity provider %s: %w", p.Name, err)
		}
		s.providers = append(s.providers, provider)
	}
	if s.entitlements, err = newEntitlements(o); err != nil {
		return err
	}
	if s.limits, err = newLimits(o.Config.Limits, o.Metrics); err != nil {
		return err
	}
	s.ring, err = keys.OpenDirectory(o.Config.Keys.Directory, s.now())
	return err
}

// handler is the public side.
func (s *server) handler() (http.Handler, error) {
	keySet, err := published("application/jwk-set+json", s.ring.Public)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pathOAuth, methods(s.exchange(s.oauthForm()), http.MethodPost))
	mux.HandleFunc(pathCopilot, methods(s.exchange(s.copilotForm()), http.MethodGet))
	mux.HandleFunc(pathKeys, methods(keySet, http.MethodGet, http.MethodHead))
	mux.HandleFunc(pathMetadata, methods(s.describe, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/", notFound)
	return withRequestID(withBoundedBody(mux)), nil
}

// adminHandler is the operator's side.
func (s *server) adminHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	return mux
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// A failed write is a client that went away.
	_, _ = io.WriteString(w, text+"\n")
}
