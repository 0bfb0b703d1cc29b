package proxy

import (
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/clientversion"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// clientMatch says which programs are meant.
type clientMatch struct {
	name string
	// versions is nil if any version is meant, one that cannot be read too.
	versions *clientversion.Range
}

func newClientMatch(cfg config.ClientMatch) (clientMatch, error) {
	m := clientMatch{name: cfg.Name}
	if cfg.Versions == "" {
		return m, nil
	}
	versions, err := clientversion.ParseRange(cfg.Versions)
	if err != nil {
		return clientMatch{}, err
	}
	m.versions = versions
	return m, nil
}

func (m clientMatch) matches(c clientInfo) bool {
	return len(m.name) == len(c.name) && strings.EqualFold(m.name, c.name) && (m.versions == nil || m.versions.Contains(c.number))
}

// find returns the first of a request's programs that is meant.
func (m clientMatch) find(clients []clientInfo) (clientInfo, bool) {
	if i := slices.IndexFunc(clients, m.matches); i >= 0 {
		return clients[i], true
	}
	return clientInfo{}, false
}

// isFrom says whether one of the programs that send the request is meant.
func (x *exchange) isFrom(m clientMatch) bool {
	_, ok := m.find(x.clients())
	return ok
}
