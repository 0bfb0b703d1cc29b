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
	// KeyStore is where the signing keys are if Config.Keys names a Secret; nil
	// is the directory that it names.
	KeyStore keys.Store
}

// server is a running issuer.
type server struct {
	config       Config
	providers    []identity.Provider
	entitlements *entitlements
	limits       *limits
	edges        edges
	keeper       *keys.Keeper
	ring         func() *keys.Ring // the keeper's
	metrics      *metrics
	log          *slog.Logger
	now          func() time.Time
	closeKeys    func()
}

// Run serves until ctx is done and running exchanges are answered, and then
// returns nil. The error is service.ErrConfig if the issuer could not start.
func Run(ctx context.Context, o Options) error {
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	err := o.Listeners.Check()
	var s *server
	if err == nil {
		s, err = open(ctx, o)
	}
	if err != nil {
		o.Listeners.Close()
		return fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	// Keys are kept, and files watched, until the last exchange is answered.
	working, served := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { s.keeper.Run(working) })
	background.Go(func() { s.entitlements.watch(working) })
	err = httpserver.RunAll(ctx, s.servers(o)...)
	served()
	background.Wait()
	return errors.Join(err, s.close())
}

// open makes a server, which is to be closed.
func open(ctx context.Context, o Options) (*server, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	s := &server{config: o.Config, log: o.Log, now: time.Now, edges: newEdges(o.Config.TrustedEdges), closeKeys: func() {}}
	if err := s.build(ctx, o); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// build makes what the server stands on.
func (s *server) build(ctx context.Context, o Options) (err error) {
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
	return s.openKeys(ctx, o)
}

// openKeys takes the key store that the configuration names, and the keys in it.
func (s *server) openKeys(ctx context.Context, o Options) (err error) {
	store := o.KeyStore
	if o.Config.Keys.Secret == "" {
		directory, err := keys.OpenDirectory(o.Config.Keys.Directory, o.Log)
		if err != nil {
			return fmt.Errorf("signing keys: %w", err)
		}
		store, s.closeKeys = directory, directory.Close
	}
	if store == nil {
		return errors.New("keys.secret: this program does not know Kubernetes; use keys.directory")
	}
	if s.keeper, err = keys.Open(ctx, store, o.Config.keyPolicy(), o.Log); err != nil {
		return err
	}
	s.ring = s.keeper.Ring
	return o.Metrics.Register(newKeyMetrics(s.ring, s.keeper.Status))
}

// close gives back what open took.
func (s *server) close() error {
	s.closeKeys()
	return closeProviders(s.providers)
}

func (s *server) servers(o Options) []*httpserver.Server {
	servers := o.Listeners.Traffic(httpserver.Server{Handler: s.handler(), Log: o.Log, MaxHeaderBytes: maxHeaderBytes})
	if admin := o.Listeners.Admin; admin != nil {
		servers = append(servers, &httpserver.Server{Name: "admin", Listener: admin, Handler: s.adminHandler(o.Metrics), Log: o.Log})
	}
	return servers
}

// handler is the public side.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pathOAuth, methods(s.exchange(s.oauthForm()), http.MethodPost))
	mux.HandleFunc(pathCopilot, methods(s.exchange(s.copilotForm()), http.MethodGet))
	mux.HandleFunc(pathKeys, methods(s.keySet(), http.MethodGet, http.MethodHead))
	mux.HandleFunc(pathMetadata, methods(s.describe, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/", notFound)
	return withRequestID(withBoundedBody(mux))
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
