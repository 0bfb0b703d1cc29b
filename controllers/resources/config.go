package resources

import (
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// maxEntries is what the API server takes of a ConfigMap or Secret.
const maxEntries = corev1.MaxSecretSize

// CheckEntries says whether the entries fit into one ConfigMap or Secret, so that one
// that the API server would refuse is not sent at all.
func CheckEntries(entries map[string][]byte) error {
	size := 0
	for _, value := range entries {
		size += len(value)
	}
	if size > maxEntries {
		return fmt.Errorf("%d entries have %d bytes together; a ConfigMap or Secret holds %d at most", len(entries), size, maxEntries)
	}
	return nil
}

// ConfigMap has the region's configs and the files that they name.
func (r Region) ConfigMap(entries map[string][]byte) *corev1ac.ConfigMapApplyConfiguration {
	text, binary := map[string]string{}, map[string][]byte{}
	for name, value := range entries {
		// What is no text would be changed on its way, and its hash not fit.
		if utf8.Valid(value) {
			text[name] = string(value)
		} else {
			binary[name] = value
		}
	}
	return owned(r, corev1ac.ConfigMap(r.names().Proxy, r.Route.Namespace)).
		WithData(text).
		WithBinaryData(binary)
}

// Credentials has the credentials of the units that the region's proxies may use. A
// region without any has an empty one, so that pods need not change with the first.
func (r Region) Credentials(entries map[string][]byte) *corev1ac.SecretApplyConfiguration {
	return owned(r, corev1ac.Secret(r.names().Credentials, r.Route.Namespace)).
		WithType(corev1.SecretTypeOpaque).
		WithData(entries)
}
