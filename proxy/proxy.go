// Package proxy is the data path: it authenticates completion requests, sends
// each to a unit of model capacity, streams the answer back, and passes a
// client's cancel on at once.
//
// A request's path begins in server.go, at serveCompletion, and goes through one
// file for each stage: admit, authenticate, client, limit, shed, session, body,
// match, variant, then for each try unit, prepare, attempt, then mirror, stream and
// at last record.
// Everything that decides sees bytes and plain values; only the server, attempt
// and stream, which move bytes, know net/http.
package proxy

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/filewatch"
	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// pollEvery is how often the config is looked at when no notification came.
const pollEvery = 10 * time.Second

// Options say what a proxy serves and where.
type Options struct {
	// ConfigFile is a config as package config describes it. It and the files
	// that it names are read again whenever they change.
	ConfigFile string
	// LastConfigFile is the last config that was in use by every proxy; one that
	// starts takes it if it must refuse ConfigFile. Empty if there is none; the
	// file need not be there before it is needed.
	LastConfigFile string
	// CredentialsDir holds the units' credentials, a file each. Empty if no unit
	// needs one.
	CredentialsDir string

	// Listeners has at least one for traffic. Its admin port answers /healthz,
	// /readyz, /statusz and /metrics.
	Listeners httpserver.Listeners

	Log *slog.Logger
	// AccessLog, if set, gets a line of JSON for each completion request. Requests
	// do not wait for it: what it does not take is dropped.
	AccessLog io.Writer
	// Tracer makes spans of completion requests and their tries; nil makes none.
	Tracer trace.TracerProvider
	// Metrics is where the proxy's metrics are registered; nil is a registry of
	// its own.
	Metrics *prometheus.Registry
	// Proxies is how many proxies share the capacity of this region's units, this
	// one among them; 0 is this one alone. ProxiesDNS, if set, is a name with one
	// address for each that is ready, such as a headless Service's: they are then
	// counted all the time, from Proxies on.
	Proxies    int
	ProxiesDNS string
	// DrainDelay is how long the proxy says that it is draining before it
	// stops taking connections, so that load balancers can notice.
	DrainDelay time.Duration
}

// proxy serves completions.
type proxy struct {
	opts     Options
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *metrics
	loader   *loader
	stages   []func(*exchange) error
	subjects *subjects
	retries  retryBudget
	peers    peers
	vote     vote
	mirrors  mirrors
	served   served
	recycler httpserver.Recycler
	// standstill is of this process.
	standstill upstream.Standstill
	readings   sync.Pool // of *reading
	// unique makes the words that tell requests to units apart.
	unique func() string
	// guardWarnings are of connections that were cut.
	guardWarnings warnings
	failureLines  *rate.Limiter // of the log
	accessLog     *accessLog    // may be nil
	tracer        trace.Tracer  // may be nil

	draining    atomic.Bool
	inFlight    atomic.Int64
	connections atomic.Int64
}

// Run serves until ctx is done, then drains: it stops being ready, waits for
// DrainDelay, and lets requests finish for up to the config's timeouts.total.
// An error that is service.ErrConfig came before anything was served.
func Run(ctx context.Context, opts Options) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	p, err := start(background, opts)
	if err != nil {
		stop()
		opts.Listeners.Close()
		return fmt.Errorf("%w: %w", service.ErrConfig, err)
	}
	var watching sync.WaitGroup
	watching.Go(func() { p.standstill.Watch(background, p.logStandstill) })
	defer func() {
		stop()
		p.mirrors.wait()
		p.loader.close()
		watching.Wait()
	}()
	if p.accessLog != nil {
		defer p.accessLog.start()()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.runServers(ctx) })
	for _, watch := range p.watches(background) {
		group.Go(func() error { watch(ctx); return nil })
	}
	return group.Wait()
}

// watches are what a proxy does beside serving, each until its context is done.
// background is for what they begin that is to go on during the drain.
func (p *proxy) watches(background context.Context) []func(context.Context) {
	watches := []func(context.Context){
		func(ctx context.Context) {
			filewatch.Watch(ctx, p.log, p.directories(), pollEvery, func() { p.loader.reload(background) })
		},
		p.watchHealth,
		p.watchRegion,
	}
	if p.opts.ProxiesDNS != "" {
		watches = append(watches, func(ctx context.Context) { p.peers.follow(ctx, p.log, net.DefaultResolver, p.opts.ProxiesDNS) })
	}
	return watches
}

// start makes a proxy with its config loaded.
func start(background context.Context, opts Options) (*proxy, error) {
	p, err := newProxy(opts)
	if err != nil {
		return nil, err
	}
	p.mirrors.ctx = background
	if err := p.loader.loadFirst(background); err != nil {
		return nil, err
	}
	return p, p.watch(p.registry)
}

func newProxy(opts Options) (*proxy, error) {
	if err := opts.Listeners.Check(); err != nil {
		return nil, err
	}
	if opts.CredentialsDir != "" {
		var err error
		if opts.CredentialsDir, err = filepath.Abs(opts.CredentialsDir); err != nil {
			return nil, err
		}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Metrics == nil {
		opts.Metrics = prometheus.NewRegistry()
	}
	metrics, err := newMetrics(opts.Metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	p := &proxy{
		opts: opts, log: opts.Log, registry: opts.Metrics, metrics: metrics,
		subjects:     newSubjects(),
		served:       newServed(),
		unique:       rand.Text,
		failureLines: rate.NewLimiter(failureLines, failureLinesBurst),
		readings:     sync.Pool{New: func() any { return &reading{events: sse.NewReader(nil)} }},
	}
	p.peers.set(max(1, opts.Proxies))
	p.loader = &loader{
		file: opts.ConfigFile, lastFile: opts.LastConfigFile, credentials: opts.CredentialsDir,
		log: p.log, metrics: p.metrics, endpoints: map[string]*endpoint{},
		fetches: map[fetch]*fetchedKeys{}, asked: map[fetch]bool{},
		standstill: &p.standstill,
	}
	p.stages = p.newStages()
	if opts.Tracer != nil {
		p.tracer = opts.Tracer.Tracer(tracerName, trace.WithInstrumentationVersion(service.Version()))
	}
	if opts.AccessLog != nil {
		p.accessLog = newAccessLog(opts.AccessLog, p.log, metrics.accessDropped)
	}
	return p, nil
}

// runServers runs the listeners. The admin port outlives the traffic ports, so that
// a drain can be watched.
func (p *proxy) runServers(ctx context.Context) error {
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	traffic, stopTraffic := context.WithCancel(failed)
	admin, stopAdmin := context.WithCancel(failed)
	defer stopTraffic()
	if listener := p.opts.Listeners.Admin; listener != nil {
		server := &httpserver.Server{Name: "admin", Listener: listener, Handler: p.adminHandler(), Log: p.log, Drain: func() time.Duration { return time.Second }}
		group.Go(func() error { return server.Run(admin) })
	}
	group.Go(func() error {
		defer stopAdmin()
		return httpserver.RunAll(traffic, p.trafficServers()...)
	})
	select {
	case <-failed.Done():
	case <-ctx.Done():
		p.drain(failed)
		stopTraffic()
	}
	return group.Wait()
}

// drain says that this proxy is going and gives others time to notice, unless a
// listener fails meanwhile.
func (p *proxy) drain(failed context.Context) {
	p.draining.Store(true)
	p.log.Info("draining", "delay", p.opts.DrainDelay.String(), "requests", p.inFlight.Load())
	select {
	case <-time.After(p.opts.DrainDelay):
	case <-failed.Done():
	}
}

func (p *proxy) trafficServers() []*httpserver.Server {
	return p.opts.Listeners.Traffic(httpserver.Server{
		Handler: p, Log: p.log, ConnState: p.countConnection, ConnContext: withConn, Recycler: &p.recycler,
		Drain: func() time.Duration { return time.Duration(p.loader.current.Load().config.Timeouts.Total) },
	})
}

// directories are what to watch for changes.
func (p *proxy) directories() []string {
	dirs := []string{filepath.Dir(p.opts.ConfigFile)}
	if p.opts.CredentialsDir != "" {
		dirs = append(dirs, p.opts.CredentialsDir)
	}
	return dirs
}
