package feature

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestBooksBalanceOfEachDialect has many type at once, each second of whom types on, to
// a unit of each dialect over both protocols: a cancel comes to the unit, or the unit had
// ended before.
func TestBooksBalanceOfEachDialect(t *testing.T) {
	const requests, width = 400, 200
	for _, p := range forms {
		for _, protocol := range overBoth {
			t.Run(p.name+" over "+protocol, func(t *testing.T) {
				unit := newLedger(requests)
				s := start(t, setup{unit: unit.keep(p.slowly()), config: func(c *config.Config) {
					p.configure(&c.Units[0], protocol)
					// However slow this machine is, only an answer that is lost takes so long.
					c.Timeouts.FirstByte, c.Timeouts.Idle = config.Duration(time.Minute), config.Duration(time.Minute)
				}})
				ty := &typing{s: s, client: s.h2(), book: newLedger(requests)}
				ty.run("typed", requests, width)
				s.settled()
				s.eventually("the unit has nothing in hand", func() bool { return unit.count(unfinished) == 0 })
				if len(ty.cut) > 0 || len(unit.twice) > 0 {
					t.Errorf("%d answers were not whole %.1q, %d requests came twice", len(ty.cut), ty.cut, len(unit.twice))
				}
				for id, saw := range ty.book.fates {
					if there := unit.of(id); saw == finished && there != finished {
						t.Errorf("%s: the client had the whole answer, and yet it did not finish at the unit", id)
					}
				}
				if unit.count(cancelled) == 0 || unit.count(finished) < requests/2 {
					t.Errorf("%d were cancelled at the unit and %d finished", unit.count(cancelled), unit.count(finished))
				}
				ok, gone := s.metric("ghostline_requests_total", "outcome", "ok"), s.metric("ghostline_requests_total", "outcome", "cancelled")
				if all := s.metric("ghostline_requests_total"); ok+gone != all || int(ok) < ty.book.count(finished) {
					t.Errorf("of %v requests %v were ok and %v cancelled; the clients have %d whole", all, ok, gone, ty.book.count(finished))
				}
				s.quiet()
			})
		}
	}
}

// slowly is a unit that says its answer over about half a second, unless its client
// leaves.
func (p speaker) slowly() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p.says()(w, r)
		for i := range 8 {
			select {
			case <-time.After(60 * time.Millisecond):
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
			send(w, p.event(p.text(fmt.Sprint(i))))
		}
		send(w, p.end())
	}
}
