package controllers

import (
	"fmt"
	"sync"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// countVotes makes the region's vote of its proxies' votes: that of most, where those
// that do not know yet are not counted. It is told once it was the same twice in a row,
// so that a proxy that starts or goes does not make it flap.
func (r *CompletionRouteReconciler) countVotes(p *pass, g *region) {
	now, reason := g.majority()
	var before v1alpha1.RegionStatus
	for _, status := range p.route.Status.Regions {
		if string(status.Name) == g.name() {
			before = status
		}
	}
	key := voteKey{client.ObjectKeyFromObject(p.route), g.name()}
	switch {
	case now == before.Vote:
		// The reason stays too: another one for the same vote is in the metrics.
		g.fleet.vote, g.fleet.voteReason = now, before.VoteReason
		r.votes.settle(key)
	case before.Vote == "" || r.votes.again(key, now):
		g.fleet.vote, g.fleet.voteReason = now, reason
		r.votes.settle(key)
	default:
		g.fleet.vote, g.fleet.voteReason, g.fleet.voteInDoubt = before.Vote, before.VoteReason, true
	}
}

// majority is the vote of most proxies that have one, and what the first of those that
// are against says.
func (g *region) majority() (vote, reason string) {
	up, down := 0, 0
	for _, l := range g.fleet.looks {
		switch {
		case l.status == nil:
		case l.status.RegionVote.Vote == "up":
			up++
		case l.status.RegionVote.Vote == "down":
			if down++; reason == "" {
				reason = fmt.Sprintf("proxy %s: %s", l.pod.Name, l.status.RegionVote.Problem)
			}
		}
	}
	switch {
	case up+down == 0 && len(g.fleet.looks) == 0:
		return v1alpha1.VoteUnknown, "no proxy is ready"
	case up+down == 0:
		return v1alpha1.VoteUnknown, "no proxy has finished its checks"
	case up >= down:
		return v1alpha1.VoteHealthy, ""
	}
	return v1alpha1.VoteUnhealthy, reason
}

// votes remembers votes that were seen once.
type votes struct {
	mu   sync.Mutex
	seen map[voteKey]string
}

type voteKey struct {
	route  types.NamespacedName
	region string
}

// again says whether the vote was seen before, and remembers it.
func (v *votes) again(key voteKey, vote string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = map[voteKey]string{}
	}
	before := v.seen[key]
	v.seen[key] = vote
	return before == vote
}

func (v *votes) settle(key voteKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.seen, key)
}

func (v *votes) forget(route types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key := range v.seen {
		if key.route == route {
			delete(v.seen, key)
		}
	}
}
