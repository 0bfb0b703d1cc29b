package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// cancelUnit is a unit in this process, so that a cancel is timed by one clock.
type cancelUnit struct {
	cleartext, secure string // addresses
	server            *http.Server
	phase             atomic.Value   // the phase in which requests stay
	begun             chan struct{}  // a request has come
	gone              chan time.Time // its client was gone
}

func startCancelUnit(certificate *tls.Config) (*cancelUnit, error) {
	cleartext, err1 := net.Listen("tcp", "127.0.0.1:0")
	secure, err2 := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	u := &cancelUnit{
		cleartext: cleartext.Addr().String(), secure: secure.Addr().String(),
		begun: make(chan struct{}, 1), gone: make(chan time.Time, 1),
	}
	u.server = &http.Server{Handler: u, Protocols: new(http.Protocols), TLSConfig: certificate}
	u.server.Protocols.SetUnencryptedHTTP2(true)
	u.server.Protocols.SetHTTP2(true)
	go func() { _ = u.server.Serve(cleartext) }() // ends when stop closes it
	go func() { _ = u.server.ServeTLS(secure, "", "") }()
	return u, nil
}

func (u *cancelUnit) stop() { u.server.Close() }

// forget drops what a request that failed left behind.
func (u *cancelUnit) forget() {
	select {
	case <-u.begun:
	default:
	}
	select {
	case <-u.gone:
	default:
	}
}

// phase is how far a completion is when it is cancelled.
type phase string

const (
	phaseWait   phase = "wait"   // no byte of the answer yet
	phaseStream phase = "stream" // after the first event
)

// ServeHTTP answers with one event and then nothing, or, if it is to wait, with
// nothing at all, until its client is gone.
func (u *cancelUnit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if u.phase.Load() == phaseStream {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"text":"x","index":0,"finish_reason":null}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	u.begun <- struct{}{}
	<-r.Context().Done()
	u.gone <- time.Now()
}
