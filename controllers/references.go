package controllers

import (
	"context"
	"fmt"
	"sync"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resolve reads the Secrets and ConfigMaps that the route refers to in the regions
// that this operator runs, and no others.
func (r *CompletionRouteReconciler) resolve(ctx context.Context, p *pass) error {
	p.refs = compile.References{Secrets: map[string]map[string][]byte{}, ConfigMaps: map[string]map[string]string{}}
	for _, region := range r.regionsOf(p.route) {
		secrets, configMaps := compile.Names(p.route, region)
		for _, name := range secrets {
			data, err := r.secret(ctx, p.route.Namespace, name)
			if err != nil {
				return err
			}
			if data != nil {
				p.refs.Secrets[name] = data
			}
		}
		for _, name := range configMaps {
			data, err := r.configMap(ctx, p.route.Namespace, name)
			if err != nil {
				return err
			}
			if data != nil {
				p.refs.ConfigMaps[name] = data
			}
		}
	}
	return nil
}

// checkCertificate looks for the Secret with the proxies' certificate, which their pods
// mount; what it holds is not ours to read.
func (r *CompletionRouteReconciler) checkCertificate(ctx context.Context, g *region) error {
	tls := g.objects.Proxy.TLS
	if tls == nil {
		return nil
	}
	var meta metav1.PartialObjectMetadata
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: g.objects.Route.Namespace, Name: tls.SecretRef.Name}, &meta)
	if err == nil || client.IgnoreNotFound(err) != nil {
		return err
	}
	path := "spec.proxy.tls.secretRef"
	if spec := g.objects.Route.Spec.Proxy; spec == nil || spec.TLS == nil || spec.TLS.SecretRef != tls.SecretRef {
		path = fmt.Sprintf("spec.regions[%s].proxy.tls.secretRef", g.name())
	}
	g.compiled.Problems = append(g.compiled.Problems, compile.Problem{
		Condition: v1alpha1.ConditionResolvedRefs,
		Reason:    v1alpha1.ReasonRefNotFound,
		Path:      path,
		Message:   fmt.Sprintf("there is no Secret %s in the namespace %s; without it no proxy can start", tls.SecretRef.Name, g.objects.Route.Namespace),
	})
	return nil
}

// secret returns what a Secret holds; nil if there is none.
func (r *CompletionRouteReconciler) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	data, err := r.content.get(ctx, r, "Secret", types.NamespacedName{Namespace: namespace, Name: name})
	if data == nil {
		return nil, err
	}
	return data.secret, nil
}

// configMap returns what a ConfigMap holds; nil if there is none.
func (r *CompletionRouteReconciler) configMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	data, err := r.content.get(ctx, r, "ConfigMap", types.NamespacedName{Namespace: namespace, Name: name})
	if data == nil {
		return nil, err
	}
	return data.configMap, nil
}

// contents remembers what Secrets and ConfigMaps held at a version. Only their
// metadata are watched, so that the operator has no more Secrets in memory than
// routes refer to, and they are read by name when their version is another.
type contents struct {
	mu    sync.Mutex
	known map[contentKey]*content
}

type contentKey struct {
	kind string
	types.NamespacedName
}

type content struct {
	version   string
	secret    map[string][]byte
	configMap map[string]string
}

// get returns the content of an object; nil if there is none.
func (c *contents) get(ctx context.Context, r *CompletionRouteReconciler, kind string, name types.NamespacedName) (*content, error) {
	key := contentKey{kind, name}
	var meta metav1.PartialObjectMetadata
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := r.Client.Get(ctx, name, &meta); err != nil {
		c.set(key, nil)
		return nil, ignoreNotFound(err, kind, name)
	}
	if known := c.at(key, meta.ResourceVersion); known != nil {
		return known, nil
	}
	read, err := readContent(ctx, r.Direct, kind, name)
	if err != nil {
		c.set(key, nil)
		return nil, ignoreNotFound(err, kind, name)
	}
	c.set(key, read)
	return read, nil
}

func readContent(ctx context.Context, direct client.Reader, kind string, name types.NamespacedName) (*content, error) {
	if kind == "Secret" {
		var secret corev1.Secret
		if err := direct.Get(ctx, name, &secret); err != nil {
			return nil, err
		}
		return &content{version: secret.ResourceVersion, secret: notNil(secret.Data)}, nil
	}
	var configMap corev1.ConfigMap
	if err := direct.Get(ctx, name, &configMap); err != nil {
		return nil, err
	}
	return &content{version: configMap.ResourceVersion, configMap: notNil(configMap.Data)}, nil
}

// notNil tells an object without data from none.
func notNil[V any](data map[string]V) map[string]V {
	if data == nil {
		return map[string]V{}
	}
	return data
}

func (c *contents) at(key contentKey, version string) *content {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[key]; known != nil && known.version == version {
		return known
	}
	return nil
}

func (c *contents) set(key contentKey, to *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to == nil {
		delete(c.known, key)
		return
	}
	if c.known == nil {
		c.known = map[contentKey]*content{}
	}
	c.known[key] = to
}

func ignoreNotFound(err error, kind string, name types.NamespacedName) error {
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("%s %s: %w", kind, name.Name, err)
	}
	return nil
}
