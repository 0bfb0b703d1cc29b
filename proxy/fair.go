package proxy

import (
	"errors"
	"time"
)

// fairShare is how many requests a subject may have running for each place that is
// free. So one subject alone gets two thirds of the places, and less the more
// others want: a threshold that moves with what is left needs no count of who else
// there is (Choudhury and Hahne, "Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches").
const fairShare = 2

var errUnfair = errors.New("the places that are left are for users who have less running")

// isFair says whether the request's subject leaves enough free for others: a user
// within all limits may yet want more than a unit has.
func (p *proxy) isFair(x *exchange, now time.Time) bool {
	if x.place == nil || x.place.others <= fairShare { // one free place is enough, and without one nobody is served
		return true
	}
	free := int64(0)
	for _, v := range x.mayServe() {
		for _, u := range v.units {
			if p.standing(x, u, now) == notToAsk {
				continue
			}
			if u.Capacity.InFlight == 0 {
				return true
			}
			free += p.places(x, u) - u.endpoint.inFlight.Load()
		}
	}
	return int64(x.place.others) <= fairShare*free
}
