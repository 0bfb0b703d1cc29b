package modelserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// DefaultStep is how often busy work looks for a cancel where Options.Step is 0.
const DefaultStep = 10 * time.Millisecond

// Bounds of the times and rates of an engine. They keep the longest plan within
// what a time.Duration holds.
const (
	maxTime = time.Hour
	minRate = 0.01
	maxRate = 1e6
)

// Options is how a model server is set up. The zero value answers as fast as it
// can.
type Options struct {
	// Listeners has at least one for completions, where /metrics and /healthz are
	// answered too. Its admin port answers /healthz, /readyz, /metrics and
	// POST /fault. Only Run uses them.
	Listeners httpserver.Listeners
	// Log defaults to nowhere, Metrics to a registry of its own.
	Log     *slog.Logger
	Metrics *prometheus.Registry

	// Corpus names files and directories to train on; none means this package's
	// own source.
	Corpus []string
	// Models are the model names to answer to; none means any.
	Models []string

	// FirstToken is the time to the first token, FirstTokenPerKiB what each KiB
	// of prompt and suffix adds to it.
	FirstToken, FirstTokenPerKiB time.Duration
	// TokensPerSecond is the rate of a slot after the first token; 0 is as fast
	// as it goes.
	TokensPerSecond float64
	// TokensPerEvent is how many tokens of a completion go into one event of a
	// stream; 0 means 1.
	TokensPerEvent int
	// Slots is how many requests work at a time; 0 is no limit.
	Slots int
	// Step is how often busy work looks for a cancel; 0 is DefaultStep.
	Step time.Duration
	// Fault befalls every request: see [Server.SetFault].
	Fault string
}

// Server is a model server. Its methods may be used by several goroutines.
type Server struct {
	options  Options
	model    *model
	engine   *engine
	counters *counters
	fault    atomic.Pointer[fault]
	metrics  http.Handler
}

// New trains the model and makes a server. Its errors are service.ErrConfig.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Step == 0 {
		o.Step = DefaultStep
	}
	o.TokensPerEvent = max(o.TokensPerEvent, 1)
	source, err := readCorpus(o.Corpus)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	s := &Server{options: o, model: train(source.files), counters: &counters{}}
	o.Log.Info("trained", "files", len(source.files), "bytes", source.bytes, "tokens", s.model.size, "cut_short", source.full)
	s.engine = &engine{step: o.Step, counters: s.counters}
	if o.Slots > 0 {
		s.engine.slots = make(chan struct{}, o.Slots)
	}
	if err := s.SetFault(o.Fault); err != nil {
		return nil, fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	if err := s.counters.register(o.Metrics); err != nil {
		return nil, fmt.Errorf("%w: metrics registry: %w", service.ErrConfig, err)
	}
	s.metrics = promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{})
	return s, nil
}

func (o *Options) check() error {
	for name, value := range map[string]time.Duration{
		"the first-token time": o.FirstToken, "the first-token time per KiB": o.FirstTokenPerKiB, "the step": o.Step,
	} {
		if value < 0 || value > maxTime {
			return fmt.Errorf("%s is %s; it must be from 0 to %s", name, value, maxTime)
		}
	}
	switch {
	case o.TokensPerSecond != 0 && !(o.TokensPerSecond >= minRate && o.TokensPerSecond <= maxRate):
		return fmt.Errorf("the tokens per second are %g; they must be from %g to %g, or 0 for as fast as it goes",
			o.TokensPerSecond, minRate, maxRate)
	case o.TokensPerEvent < 0:
		return fmt.Errorf("the tokens per event are %d; they must be at least 1", o.TokensPerEvent)
	case o.Slots < 0:
		return fmt.Errorf("the slots are %d; they must be at least 1, or 0 for no limit", o.Slots)
	case slices.Contains(o.Models, ""):
		return errors.New("a model name is empty")
	}
	return nil
}

// Handler answers what goes to the traffic listeners.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/completions", s.serveCompletion)
	mux.HandleFunc("GET /healthz", serveOK)
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("/", serveNotFound)
	return mux
}

// AdminHandler answers what goes to the admin listener.
func (s *Server) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveOK)
	mux.HandleFunc("GET /readyz", serveOK)
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("POST /fault", s.serveFault)
	return mux
}

func serveOK(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }

func serveNotFound(w http.ResponseWriter, _ *http.Request) {
	failure := &apiError{status: http.StatusNotFound, message: "unknown path: this server has POST /v1/completions"}
	failure.write(w)
}

// serveFault sets the fault of every request to the one in the body.
func (s *Server) serveFault(w http.ResponseWriter, r *http.Request) {
	const maxSpec = 4 << 10
	spec, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSpec))
	if err == nil {
		err = s.SetFault(string(spec))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Run makes a server and serves on the listeners of o until ctx is done, lets
// running requests finish, and returns nil. Errors about the options are
// service.ErrConfig.
func Run(ctx context.Context, o Options) error {
	s, err := New(o)
	if err != nil {
		o.Listeners.Close()
		return err
	}
	return s.Run(ctx)
}

// Run serves as the function Run does.
func (s *Server) Run(ctx context.Context) error {
	listeners := s.options.Listeners
	if err := listeners.Check(); err != nil {
		listeners.Close()
		return fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	servers := listeners.Traffic(httpserver.Server{Handler: s.Handler(), Log: s.options.Log, ConnState: s.ConnState})
	if admin := listeners.Admin; admin != nil {
		servers = append(servers, &httpserver.Server{Name: "admin", Listener: admin, Handler: s.AdminHandler(), Log: s.options.Log})
	}
	return httpserver.RunAll(ctx, servers...)
}
