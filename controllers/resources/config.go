package resources

import (
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

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
