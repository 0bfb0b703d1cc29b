package api

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/secretstore"
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	signingKeys        = "ghostline-signing-keys"
	issuerRole         = "testdata/issuer-role.yaml"
	issuerRoleNoCreate = "testdata/issuer-role-without-create.yaml"
	askRotation        = `{"stringData":{"rotate":""}}` // as docs/keys.md has it
)

var rotationPolicy = keys.Policy{RotateEvery: keys.DefaultRotateEvery, Propagation: 100 * time.Millisecond, TokenLife: time.Minute}

// openStore opens the namespace's signing keys as a user.
func openStore(t *testing.T, user *rest.Config, namespace, identity string) *secretstore.Store {
	t.Helper()
	store, err := secretstore.Open(secretstore.Options{
		API: user, Namespace: namespace, Name: signingKeys, Identity: identity, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// keepKeys keeps the keys as a running issuer does, until stop or the test's end.
func keepKeys(t *testing.T, store keys.Store) (keeper *keys.Keeper, stop func()) {
	t.Helper()
	keeper, err := keys.Open(t.Context(), store, rotationPolicy, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return keeper, stop
}

func keySecret(t *testing.T, namespace string) *corev1.Secret {
	t.Helper()
	secret := new(corev1.Secret)
	if err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: signingKeys}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func patchKeySecret(t *testing.T, namespace, patch string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: signingKeys}}
	if err := admin.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func leaseHolder(t *testing.T, namespace string) string {
	t.Helper()
	lease := new(coordinationv1.Lease)
	err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: signingKeys}, lease)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestIssuersShareKeys: two issuers under the role of their chart. One leads and
// rotates, the other follows, and takes over when the first ends.
func TestIssuersShareKeys(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	user := userWithRole(t, namespace, issuerRole)
	first, stopFirst := keepKeys(t, openStore(t, user, namespace, "first"))
	eventually(t, "the first leads", func() bool { return first.Status().Leads && leaseHolder(t, namespace) == "first" })
	second, _ := keepKeys(t, openStore(t, user, namespace, "second"))
	same := func() bool {
		return first.Ring().Signer.KeyID == second.Ring().Signer.KeyID && slices.Equal(first.Ring().Public.IDs(), second.Ring().Public.IDs())
	}
	if !same() || second.Status().Leads {
		t.Errorf("the second has other keys, or leads: %+v", second.Status())
	}

	old := first.Ring().Signer.KeyID
	patchKeySecret(t, namespace, askRotation)
	eventually(t, "both sign with the next key", func() bool { return first.Ring().Signer.KeyID != old && same() })
	if data := keySecret(t, namespace).Data; len(data) != 2 || data[keys.RotateEntry] != nil {
		t.Errorf("the Secret has %d entries, want the two keys", len(data))
	}

	stopFirst()
	eventually(t, "the second leads", func() bool { return second.Status().Leads && leaseHolder(t, namespace) == "second" })
	old = second.Ring().Signer.KeyID
	patchKeySecret(t, namespace, askRotation)
	eventually(t, "the second rotates", func() bool { return second.Ring().Signer.KeyID != old })
}

// TestIssuerWithoutCreate: where a person made the Secret and the Lease, as docs/keys.md
// says, both empty, an issuer needs no right to create.
func TestIssuerWithoutCreate(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	name := metav1.ObjectMeta{Namespace: namespace, Name: signingKeys}
	create(t, &corev1.Secret{ObjectMeta: name})
	create(t, &coordinationv1.Lease{ObjectMeta: name})
	user := userWithRole(t, namespace, issuerRoleNoCreate)
	keeper, _ := keepKeys(t, openStore(t, user, namespace, "only"))
	eventually(t, "it leads", func() bool { return keeper.Status().Leads && leaseHolder(t, namespace) == "only" })
	old := keeper.Ring().Signer.KeyID
	patchKeySecret(t, namespace, askRotation)
	eventually(t, "it rotates", func() bool { return keeper.Ring().Signer.KeyID != old })
}

// TestIssuerMayDoNoMore: the role is for one Secret and one Lease.
func TestIssuerMayDoNoMore(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "another"}}
	create(t, other)
	api := clientFor(t, userWithRole(t, namespace, issuerRole))
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: signingKeys}}
	if err := api.Create(t.Context(), own.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"read another Secret":      api.Get(t.Context(), client.ObjectKeyFromObject(other), new(corev1.Secret)),
		"list Secrets":             api.List(t.Context(), new(corev1.SecretList), client.InNamespace(namespace)),
		"delete its Secret":        api.Delete(t.Context(), own),
		"replace its Secret":       api.Update(t.Context(), own),
		"list Leases":              api.List(t.Context(), new(coordinationv1.LeaseList), client.InNamespace(namespace)),
		"read elsewhere":           api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: signingKeys}, new(corev1.Secret)),
		"list ConfigMaps":          api.List(t.Context(), new(corev1.ConfigMapList), client.InNamespace(namespace)),
		"list all ConfigMaps":      api.List(t.Context(), new(corev1.ConfigMapList)),
		"create a ConfigMap":       api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: own.ObjectMeta}),
		"read another one's Lease": api.Get(t.Context(), client.ObjectKeyFromObject(other), new(coordinationv1.Lease)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
}

// TestOneOfTwoIssuersSaves: both have loaded the same, where there is no Secret yet and
// where there is one.
func TestOneOfTwoIssuersSaves(t *testing.T) {
	t.Parallel()
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	store := openStore(t, userWithRole(t, namespace, issuerRole), namespace, "x")
	// Keys to save come from a keeper in another namespace.
	maker := openStore(t, userWithRole(t, elsewhere, issuerRole), elsewhere, "y")
	fresh := func() keys.State {
		if _, err := keys.Open(t.Context(), maker, rotationPolicy, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		state, err := maker.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		patchKeySecret(t, elsewhere, `{"data":null}`)
		return state
	}
	for _, there := range []string{"no Secret", "a Secret"} {
		from, err := store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Save(t.Context(), from, fresh()); err != nil {
			t.Errorf("%s: the first: %v", there, err)
		}
		before := keySecret(t, namespace)
		if err := store.Save(t.Context(), from, fresh()); !errors.Is(err, keys.ErrConflict) {
			t.Errorf("%s: the second: %v, want a conflict", there, err)
		}
		if after := keySecret(t, namespace); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: the second has changed it", there)
		}
	}
}

// TestIssuerOutlivesOutage: without the API server an issuer goes on signing and says
// that it cannot load; it gives up to lead, and leads again when it is back.
func TestIssuerOutlivesOutage(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	way, user := newRelay(t, userWithRole(t, namespace, issuerRole))
	way.setCut(true)
	store := openStore(t, user, namespace, "x")
	if _, err := keys.Open(t.Context(), store, rotationPolicy, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "secret "+signingKeys+": ") {
		t.Errorf("a start without the API server: %v, want an error that names the Secret", err)
	}
	way.setCut(false)
	keeper, _ := keepKeys(t, store)
	eventually(t, "it leads", func() bool { return keeper.Status().Leads })
	signs := keeper.Ring().Signer.KeyID

	way.setCut(true)
	eventually(t, "it tells that it cannot load, and leads no more", func() bool {
		return !keeper.Status().Loaded && !keeper.Status().Leads
	})
	if keeper.Ring().Signer.KeyID != signs {
		t.Error("another key signs without the API server")
	}
	patchKeySecret(t, namespace, askRotation)
	way.setCut(false)
	eventually(t, "it leads again, and makes up for the rotation", func() bool {
		return keeper.Status().Loaded && keeper.Status().Leads && keeper.Ring().Signer.KeyID != signs
	})
}

// TestKeySecretOfTheWrongShape: a start says what is wrong; what is none of the issuer's
// business stays.
func TestKeySecretOfTheWrongShape(t *testing.T) {
	t.Parallel()
	immutable := true
	for _, c := range []struct {
		name   string
		secret corev1.Secret
		want   string // a part of the error; "" if the issuer starts
	}{
		{"immutable", corev1.Secret{Immutable: &immutable}, "field is immutable when `immutable` is set"},
		{"no key", corev1.Secret{StringData: map[string]string{"signing.pem": "x"}}, "signing.pem: the name must be TIME-KID.pem"},
		{"of another type", corev1.Secret{Type: corev1.SecretTypeTLS, StringData: map[string]string{"tls.crt": "a", "tls.key": "b"}}, ""},
		{"with a note", corev1.Secret{StringData: map[string]string{"README": "do not touch"}}, ""},
	} {
		namespace := newNamespace(t)
		c.secret.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: signingKeys}
		create(t, &c.secret)
		entries := len(c.secret.Data)
		store := openStore(t, userWithRole(t, namespace, issuerRole), namespace, "x")
		_, err := keys.Open(t.Context(), store, rotationPolicy, slog.New(slog.DiscardHandler))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.want == "" {
			entries++
		}
		if got := len(keySecret(t, namespace).Data); got != entries {
			t.Errorf("%s: the Secret has %d entries, want %d", c.name, got, entries)
		}
	}
}
