package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/auth"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// loader makes snapshots of the config and of all that it names: key set,
// denied subjects, credentials, CA certificates. Whatever is wrong with a new
// one, the last good one stays.
type loader struct {
	file        string // the config
	lastFile    string // the last config that all proxies had in use; may be empty
	credentials string // the directory
	log         *slog.Logger
	metrics     *metrics
	standstill  *upstream.Standstill // of this process
	current     atomic.Pointer[snapshot]
	refused     atomic.Pointer[RefusedConfig] // the newest config, while it is not in use

	mu        sync.Mutex // over everything below; held while loading
	digest    [sha256.Size]byte
	files     map[string][]byte // what the current snapshot was made of, by path
	endpoints map[string]*endpoint
	queues    map[string]*mirrorQueue // by mirror.name
	fetches   map[fetch]*fetchedKeys
	asked     map[fetch]bool // by the load that runs
	waiting   string         // hash of the config that waits for its keys
	said      string         // what the log says is wrong with the newest config
	wg        sync.WaitGroup
}

// fetch is where a key set is fetched from, and whom to trust there.
type fetch struct {
	config.KeySet
	roots string // hash of the CA file
}

// fetchedKeys is a key set that is fetched in the background.
type fetchedKeys struct {
	data []byte // the last good one; nil before the first
	stop context.CancelFunc
}

// load reads everything again and swaps the snapshot if anything changed. With
// an error, the current config stays, but not what it names: a withdrawn key or
// a denied subject must not wait until somebody mends the new config. Without a
// current one, the last that was good for all proxies takes its place. ctx bounds
// the background fetch of keys, if a config asks for one.
func (l *loader) load(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.asked)
	taken := false
	data, err := readBounded(l.file)
	if err == nil {
		taken, err = l.take(ctx, data)
	}
	l.noteRefused(taken, data, err)
	if current := l.current.Load(); !taken && current != nil {
		// An error is about a file that the newest config may not even name, so
		// only that config's is told.
		_, _ = l.take(ctx, current.source)
	}
	l.keepFetching()
	if err != nil {
		return fmt.Errorf("config %s: %w", l.file, err)
	}
	return nil
}

// loadFirst is load for a proxy that starts. A new config that it refuses does
// not keep it from serving by the last one: it may be one of many that are
// started anew while that config is out.
func (l *loader) loadFirst(ctx context.Context) error {
	err := l.load(ctx)
	if err == nil || l.lastFile == "" {
		return err
	}
	data, lastErr := readBounded(l.lastFile)
	if lastErr == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, lastErr = l.take(ctx, data)
	}
	if lastErr != nil {
		return errors.Join(err, fmt.Errorf("last config %s: %w", l.lastFile, lastErr))
	}
	l.log.Error("the config is refused; the one in -last-config is in use", "error", err)
	return nil
}

// noteRefused keeps what is to be told of the newest config.
func (l *loader) noteRefused(taken bool, data []byte, err error) {
	l.metrics.reload(taken)
	if taken {
		l.refused.Store(nil)
		return
	}
	refused := &RefusedConfig{Hash: config.Hash(data), Problem: "it waits for the keys of its key set"}
	if err != nil {
		refused.Problem = err.Error()
	}
	l.refused.Store(refused)
}

// take makes an encoded config the current one. It does not if the config must
// wait for the keys of a new key set.
func (l *loader) take(ctx context.Context, data []byte) (taken bool, err error) {
	in := &inputs{dir: filepath.Dir(l.file), digest: sha256.New(), last: l.files, files: map[string][]byte{}}
	in.add(l.file, data)
	cfg, unknown, err := config.DecodeLenient(data)
	if err != nil {
		return false, err
	}
	next, err := newSnapshot(cfg)
	if err != nil {
		return false, err
	}
	next.source, next.hash, next.loaded = data, config.Hash(data), time.Now()
	keys, err := l.readKeys(ctx, cfg.Tokens.KeySet, in)
	if err != nil {
		return false, fmt.Errorf("tokens.keySet: %w", err)
	}
	if next.denied, err = readDenied(cfg.Tokens.DeniedSubjects, in); err != nil {
		return false, fmt.Errorf("tokens.deniedSubjects: %w", err)
	}
	if err := l.authenticator(next, keys); err != nil {
		return false, fmt.Errorf("tokens.keySet: %w", err)
	}
	if current := l.current.Load(); next.auth == nil && current != nil && current.auth != nil {
		l.reportWaiting(next.hash)
		return false, nil
	}
	next.clientCounters = newClientCounters(l.metrics.clients, next.clientRules)
	l.addUnits(next, in)
	l.files = in.files
	next.link()
	l.addVariants(next)
	l.addMutations(next)
	l.reportUnknown(next, unknown)
	l.swap(next, in)
	return true, nil
}

// reportWaiting says once that a config waits.
func (l *loader) reportWaiting(hash string) {
	if l.waiting != hash {
		l.waiting = hash
		l.log.Info("the new config names another key set; it takes over once that is fetched", "hash", hash)
	}
}

func (l *loader) reportUnknown(next *snapshot, unknown []error) {
	l.metrics.unknownFields.Set(float64(len(unknown)))
	if current := l.current.Load(); len(unknown) > 0 && (current == nil || current.hash != next.hash) {
		l.log.Warn("the config has fields that this proxy does not know; they are ignored", "fields", errors.Join(unknown...).Error())
	}
}

// authenticator gives next the current authenticator, with what it remembers,
// if nothing about the tokens changed.
func (l *loader) authenticator(next *snapshot, keys []byte) error {
	if keys == nil {
		return nil
	}
	set, err := token.ParseKeySet(keys)
	if err != nil {
		return err
	}
	next.keys, next.keyIDs = keys, set.IDs()
	tokens := next.config.Tokens
	if now := l.current.Load(); now != nil && now.auth != nil && bytes.Equal(now.keys, keys) &&
		now.config.Tokens.Issuer == tokens.Issuer && now.config.Tokens.Audience == tokens.Audience {
		next.auth = now.auth
		return nil
	}
	next.auth = auth.New(token.Verifier{Issuer: tokens.Issuer, Audience: tokens.Audience}, set)
	return nil
}

// swap makes next the current snapshot, if anything in it is new, and lets go of
// what only the old one used.
func (l *loader) swap(next *snapshot, in *inputs) {
	digest := in.sum()
	if digest == l.digest && l.current.Load() != nil {
		return
	}
	l.digest, l.waiting = digest, ""
	last := l.current.Swap(next)
	l.letGo(last, next)
	l.metrics.loaded(last, next)
	l.log.Info("config loaded", "hash", next.hash, "models", len(next.config.Models), "units", len(next.units), "keys", next.keyIDs)
	for _, m := range next.mutations {
		if m.problem != "" {
			l.log.Error("a mutation is left out", "mutation", m.name, "problem", m.problem)
		}
	}
	for _, u := range next.units {
		switch {
		case u.problem != "":
			l.log.Error("a unit is left out", "unit", u.Name, "problem", u.problem)
		case u.tellsCredential():
			l.log.Warn("a unit's credential goes over the network in clear text; use an https url", "unit", u.Name)
		}
	}
}

// letGo closes the connections that only last used.
func (l *loader) letGo(last, next *snapshot) {
	used := map[*endpoint]bool{}
	for _, u := range next.units {
		used[u.endpoint] = true
	}
	if last != nil {
		for _, u := range last.units {
			if u.endpoint != nil && !used[u.endpoint] {
				u.endpoint.pool.Close()
			}
		}
	}
	maps.DeleteFunc(l.endpoints, func(_ string, e *endpoint) bool { return !used[e] })
	l.queues = map[string]*mirrorQueue{}
	for _, m := range next.mirrors {
		l.queues[m.name()] = m.queue
	}
}

// readKeys returns the key set; nil if it is still to be fetched.
func (l *loader) readKeys(ctx context.Context, from config.KeySet, in *inputs) ([]byte, error) {
	if from.File != "" {
		return in.read(from.File)
	}
	key := fetch{KeySet: from}
	var roots *x509.CertPool
	if from.CAFile != "" {
		var err error
		if roots, key.roots, err = in.certificates(from.CAFile); err != nil {
			return nil, err
		}
	}
	l.asked[key] = true
	keys, ok := l.fetches[key]
	if !ok {
		fetchCtx, stop := context.WithCancel(ctx)
		keys = &fetchedKeys{stop: stop, data: l.keysOf(from)}
		l.fetches[key] = keys
		l.wg.Go(func() {
			auth.KeyFetch{
				URL: from.URL, Roots: roots, Log: l.log,
				Got: func(data []byte) { l.fetched(ctx, keys, data) }, Fresh: l.metrics.keysFresh.SetToCurrentTime,
			}.Run(fetchCtx)
		})
	}
	in.digest.Write(keys.data)
	return keys.data, nil
}

// keysOf is what an earlier fetch from the same place got, if there is one: a new
// CA for it is no reason to be without keys.
func (l *loader) keysOf(from config.KeySet) []byte {
	for key, keys := range l.fetches {
		if key.KeySet == from && keys.data != nil {
			return keys.data
		}
	}
	return nil
}

// fetched takes a key set from the background.
func (l *loader) fetched(ctx context.Context, keys *fetchedKeys, data []byte) {
	l.mu.Lock()
	keys.data = data
	l.mu.Unlock()
	l.reload(ctx)
}

// keepFetching ends the fetches that this load did not ask for.
func (l *loader) keepFetching() {
	for from, keys := range l.fetches {
		if !l.asked[from] {
			keys.stop()
			delete(l.fetches, from)
		}
	}
}

// reload is load for the background, where nobody waits for the error.
func (l *loader) reload(ctx context.Context) {
	err := l.load(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = ""
	if err == nil {
		if said != "" {
			l.log.Info("the config is no longer refused")
		}
		return
	}
	l.said = err.Error()
	if l.said != said { // once, not with every poll
		l.log.Error("the new config is refused; the last good one stays in use", "error", err)
	}
}

// close ends what load began, once its ctx is done.
func (l *loader) close() {
	l.wg.Wait()
	for _, e := range l.endpoints {
		e.pool.Close()
		e.pool.Wait()
	}
}
