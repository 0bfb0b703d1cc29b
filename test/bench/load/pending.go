package load

import "time"

// Pending is a request that runs until it is cancelled.
type Pending struct {
	conn  *Conn
	call  *call
	first chan struct{}
	ended chan error
}

// Start sends a request.
func (c *Conn) Start(req *Request) (*Pending, error) {
	p := &Pending{conn: c, first: make(chan struct{}), ended: make(chan error, 1)}
	p.call = &call{req: req, begun: func() { close(p.first) }, ended: func(err error) { p.ended <- err }}
	if err := c.begin(p.call); err != nil {
		return nil, err
	}
	return p, nil
}

// First is closed when the first event has come.
func (p *Pending) First() <-chan struct{} { return p.first }

// Ended gets what was wrong with the answer, or nil, when it ends before it is
// cancelled.
func (p *Pending) Ended() <-chan error { return p.ended }

// Cancel resets the stream, if it has not ended, and returns when it did.
func (p *Pending) Cancel() time.Time {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	now := time.Now()
	if p.conn.streams[p.call.id] == p.call {
		p.conn.reset(p.call)
	}
	return now
}
