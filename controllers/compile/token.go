package compile

import (
	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

const (
	pathKeySet = "spec.tokens.keySet"
	pathDenied = "spec.tokens.deniedSubjects"
)

// addTokens says which tokens count. Without the keys or the denied subjects nothing
// can be served: all would be refused, or those who must be.
func (c *compiler) addTokens() {
	from, to := &c.route.Spec.Tokens, &c.config.Tokens
	to.Issuer, to.Audience = from.Issuer, from.Audience
	to.KeySet.URL = from.KeySet.URL
	if (from.KeySet.URL == "") == (from.KeySet.ConfigMapRef == nil) {
		c.invalid(pathKeySet, "must have exactly one of url and configMapRef")
	}
	if from.KeySet.CARef != nil && from.KeySet.ConfigMapRef != nil {
		c.invalid(pathKeySet+".caRef", "goes only with url")
	}
	to.KeySet.File = c.needed(from.KeySet.ConfigMapRef, pathKeySet+".configMapRef", HoldsKeySet)
	to.KeySet.CAFile = c.needed(from.KeySet.CARef, pathKeySet+".caRef", HoldsCertificates)
	if from.DeniedSubjects != nil {
		to.DeniedSubjects = &config.DeniedSubjects{
			File: c.needed(&from.DeniedSubjects.ConfigMapRef, pathDenied+".configMapRef", HoldsSubjects),
		}
	}
}

// needed is the file of a reference without which nothing can be served.
func (c *compiler) needed(ref *v1alpha1.KeyRef, path, holds string) string {
	if ref == nil {
		return ""
	}
	name, refused := c.file(ref, holds)
	if refused != nil {
		c.stop(v1alpha1.ConditionResolvedRefs, refused.reason, path, "%s", refused.message)
		return "unresolved" // so that the rest is checked as if it were there
	}
	return name
}
