package proxy

import (
	"encoding/binary"
	"hash/fnv"
	"math"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// pickVariant decides which variant of the model serves: always the same one
// for a subject, or a fresh draw for each request id.
func (p *proxy) pickVariant(x *exchange) error {
	key := x.claims.Subject
	if x.model.Split.By == config.SplitByRequest {
		key = x.id
	}
	x.wanted = x.model.choose(key)
	x.variant = x.wanted
	return nil
}

// choose is weighted rendezvous hashing: each variant draws a number from the
// key, weighted, and the highest wins. Raising a variant's weight raises its
// draws alone, so keys only move to it, never between the others.
func (m *model) choose(key string) *variant {
	if len(m.variants) == 1 {
		return m.variants[0]
	}
	var chosen *variant
	highest := math.Inf(-1)
	for _, v := range m.variants {
		if v.Weight == 0 {
			continue
		}
		// With u uniform in (0, 1), -w/ln(u) wins in proportion to w
		// (Efraimidis and Spirakis, "Weighted random sampling with a reservoir").
		if score := -float64(v.Weight) / math.Log(m.draw(v.Name, key)); score > highest {
			chosen, highest = v, score
		}
	}
	return chosen
}

// draw is a number in (0, 1) that is fixed for salt, model, variant and key.
func (m *model) draw(variant, key string) float64 {
	return draw(m.Split.Salt, m.Name, variant, key)
}

// draw is a number in (0, 1) that is fixed for its parts.
func draw(parts ...string) float64 {
	h := fnv.New64a()
	for _, part := range parts {
		var length [8]byte // so that ("ab", "c") and ("a", "bc") differ
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return (float64(mix(h.Sum64())>>11) + 0.5) / (1 << 53)
}

// mix spreads FNV's last bytes over all bits (the finalizer of MurmurHash3):
// without it, keys that end alike would draw alike.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
