// Package secretstore keeps an issuer's signing keys in a Kubernetes Secret, which
// several issuers share. It is the one part of the issuer that knows Kubernetes.
//
// The Secret has an entry for each key, named as a file of a key directory would
// be. Whoever changes it names the version that the change is of, so of two that
// write at once one is refused. Which of the issuers rotates is settled by a Lease
// of the Secret's name; the others follow.
package secretstore

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Times of the Lease. A leader that is gone is followed within leaseDuration.
const (
	leaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 4 * time.Second

	// requestTimeout is for one request to the API server.
	requestTimeout = 5 * time.Second
)

// Options is a store to open.
type Options struct {
	// API is the API server and who this process is there.
	API *rest.Config
	// Namespace and Name are the Secret's, and the Lease's.
	Namespace, Name string
	// Identity is this process's name in the Lease, unlike that of any other.
	Identity string
	Log      *slog.Logger
}

// Store is a keys.Store.
type Store struct {
	secrets         coreclient.SecretInterface
	leases          coordinationclient.CoordinationV1Interface
	namespace, name string
	identity        string
	log             *slog.Logger
	leads           atomic.Bool
}

// Open makes a store. It asks the API server for nothing yet.
func Open(o Options) (*Store, error) {
	api := rest.CopyConfig(o.API)
	api.Timeout = requestTimeout
	core, err := coreclient.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", o.Name, err)
	}
	coordination, err := coordinationclient.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", o.Name, err)
	}
	return &Store{
		secrets: core.Secrets(o.Namespace), leases: coordination,
		namespace: o.Namespace, name: o.Name, identity: o.Identity, log: o.Log,
	}, nil
}

// Environment is the API server that this process can reach, and its namespace: of
// its pod, or else of the current context of KUBECONFIG or ~/.kube/config.
func Environment() (api *rest.Config, namespace string, err error) {
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
	if api, err = config.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("kubernetes: %w", err)
	}
	if namespace, _, err = config.Namespace(); err != nil {
		return nil, "", fmt.Errorf("kubernetes: %w", err)
	}
	return api, namespace, nil
}

// Load reads the Secret. One that is absent has no keys.
func (s *Store) Load(ctx context.Context) (keys.State, error) {
	secret, err := s.secrets.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return keys.State{}, nil
	}
	if err != nil {
		return keys.State{}, fmt.Errorf("secret %s: %w", s.name, err)
	}
	names := slices.Sorted(maps.Keys(secret.Data))
	return keys.Decode(names, secret.ResourceVersion, func(name string) ([]byte, error) { return secret.Data[name], nil }), nil
}

// Save changes the Secret, or makes it, if it is still the one that was loaded.
func (s *Store) Save(ctx context.Context, from, to keys.State) error {
	data, err := entries(keys.Diff(from, to), to)
	if err != nil {
		return err
	}
	if from.Version == "" {
		err = s.create(ctx, data)
	} else {
		err = s.patch(ctx, from.Version, data)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return keys.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("secret %s: %w", s.name, err)
	}
	return nil
}

// entries are what the Secret's data must get; nil takes an entry away.
func entries(changes keys.Changes, to keys.State) (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, name := range changes.Remove {
		data[name] = nil
	}
	for was := range changes.Rename {
		data[was] = nil
	}
	put := map[string]bool{}
	for _, key := range changes.Put {
		put[key.EntryName()] = true
	}
	for _, name := range changes.Rename {
		put[name] = true
	}
	for _, key := range to.Keys {
		if !put[key.EntryName()] {
			continue
		}
		content, err := key.Encode()
		if err != nil {
			return nil, err
		}
		data[key.EntryName()] = content
	}
	return data, nil
}

func (s *Store) create(ctx context.Context, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Type: corev1.SecretTypeOpaque, Data: data}
	_, err := s.secrets.Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// patch is a merge patch (RFC 7386), which leaves what it does not name as it is.
// The API server refuses it if the version is another.
func (s *Store) patch(ctx context.Context, version string, data map[string][]byte) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": version},
		"data":     data,
	})
	if err != nil {
		return err
	}
	_, err = s.secrets.Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Leads says whether this process has the Lease.
func (s *Store) Leads() bool { return s.leads.Load() }

// Watch stands for leader until ctx is done, and then gives the Lease back. It
// calls changed when this process has become the leader. It does not watch the
// Secret: that is read every few seconds anyway, by its name, which is all that
// this process then needs to be allowed.
func (s *Store) Watch(ctx context.Context, changed func()) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Client:     s.leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true, Name: s.name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { s.lead(true); changed() },
			OnStoppedLeading: func() { s.lead(false) },
		},
	})
	if err != nil {
		s.log.Error("this issuer cannot rotate the signing keys", "error", err)
		<-ctx.Done()
		return
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(s.log.Handler()))
	for ctx.Err() == nil {
		elector.Run(ctx) // returns when the Lease is lost
	}
}

func (s *Store) lead(leads bool) {
	if s.leads.Swap(leads) != leads {
		s.log.Info("leader of the signing keys", "leads", leads)
	}
}
