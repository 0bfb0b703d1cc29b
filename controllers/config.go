package controllers

import (
	"context"
	"maps"

	"github.com/ghostline-dev/ghostline/controllers/resources"
	"github.com/ghostline-dev/ghostline/proxy/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// liveConfig is what a region's ConfigMap and Secret hold.
type liveConfig struct {
	// exists says whether the region ever had a config.
	exists bool
	// last is the last config that all ready proxies used, as lastData has it; nil
	// if there is none that can be read.
	last     *config.Config
	lastData []byte
	// entries are those of the ConfigMap, credentials those of the Secret.
	entries     map[string]string
	credentials map[string][]byte
}

// readLive reads the regions' ConfigMaps and Secrets. It asks the API server itself,
// since a cache that lags behind our own writes would have us undo them.
func (r *CompletionRouteReconciler) readLive(ctx context.Context, p *pass) error {
	for _, g := range p.regions {
		names := resources.NamesOf(p.route, g.name())
		var configMap corev1.ConfigMap
		if err := r.readOwned(ctx, p, names.Proxy, &configMap); err != nil {
			g.failure = err
			continue
		}
		var secret corev1.Secret
		if err := r.readOwned(ctx, p, names.Credentials, &secret); err != nil {
			g.failure = err
			continue
		}
		g.live = liveConfig{exists: configMap.UID != "", entries: configMap.Data, credentials: secret.Data}
		g.live.readLast()
	}
	return nil
}

// readOwned reads one of the route's objects, and leaves it empty if there is none.
func (r *CompletionRouteReconciler) readOwned(ctx context.Context, p *pass, name string, into client.Object) error {
	err := r.Direct.Get(ctx, types.NamespacedName{Namespace: p.route.Namespace, Name: name}, into)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return checkOwner(p.route, into)
}

// readLast finds the last good config. One that cannot be read is of no use to a
// proxy either.
func (l *liveConfig) readLast() {
	text, ok := l.entries[resources.EntryLastConfig]
	if !ok {
		return
	}
	if last, _, err := config.DecodeLenient([]byte(text)); err == nil {
		l.last, l.lastData = last, []byte(text)
	}
}

// writeConfig writes each region's credentials and then its config, which names them.
// Where nothing can be served, what was there stays.
func (r *CompletionRouteReconciler) writeConfig(ctx context.Context, p *pass) error {
	for _, g := range p.regions {
		if g.compiled.Config == nil || g.failure != nil {
			continue
		}
		if g.failure = r.apply(ctx, p, g.objects.Credentials(g.credentials())); g.failure == nil {
			g.failure = r.apply(ctx, p, g.objects.ConfigMap(g.entries()))
		}
	}
	return nil
}

// entries are those of the region's ConfigMap: the config, the last good one, and the
// files of both.
func (g *region) entries() map[string][]byte {
	entries := maps.Clone(g.compiled.Files)
	if entries == nil {
		entries = map[string][]byte{}
	}
	entries[resources.EntryConfig] = g.compiled.Data
	if g.live.last == nil {
		return entries
	}
	entries[resources.EntryLastConfig] = g.live.lastData
	for _, name := range g.live.last.Files() {
		if text, ok := g.live.entries[name]; ok {
			entries[name] = []byte(text)
		}
	}
	return entries
}

// credentials are the entries of the region's Secret: those of the config and those
// of the last good one, which proxies use until they have loaded the new one.
func (g *region) credentials() map[string][]byte {
	entries := maps.Clone(g.compiled.Credentials)
	if g.live.last == nil {
		return entries
	}
	if entries == nil {
		entries = map[string][]byte{}
	}
	for _, name := range g.live.last.Credentials() {
		if value, ok := g.live.credentials[name]; ok {
			entries[name] = value
		}
	}
	return entries
}

// keepLast makes the config that all ready proxies use the last good one, for those
// that start while a later one cannot be used, and removes what only the one before
// it needed.
func (r *CompletionRouteReconciler) keepLast(ctx context.Context, p *pass) error {
	for _, g := range p.regions {
		if !g.programmed() || string(g.live.lastData) == string(g.compiled.Data) {
			continue
		}
		g.live.last, g.live.lastData = g.compiled.Config, g.compiled.Data
		if g.failure = r.apply(ctx, p, g.objects.ConfigMap(g.entries())); g.failure == nil {
			g.failure = r.apply(ctx, p, g.objects.Credentials(g.credentials()))
		}
	}
	return nil
}
