package httpserver

import (
	"crypto/tls"
	"errors"
	"net"
)

// Listeners are where a service listens.
type Listeners struct {
	// TLS and Cleartext take traffic; nil is none.
	TLS, Cleartext net.Listener
	// Certificate is the configuration of TLS.
	Certificate *tls.Config
	// Admin is for operators: health, metrics, state; nil is none.
	Admin net.Listener
}

// Check is an error unless there is a listener for traffic, with a certificate
// if it is TLS.
func (l Listeners) Check() error {
	switch {
	case l.TLS == nil && l.Cleartext == nil:
		return errors.New("no listener for traffic, neither TLS nor cleartext")
	case l.TLS != nil && l.Certificate == nil:
		return errors.New("a TLS listener needs a certificate")
	}
	return nil
}

// Traffic returns a server like base for each traffic listener.
func (l Listeners) Traffic(base Server) []*Server {
	var servers []*Server
	if l.TLS != nil {
		server := base
		server.Name, server.Listener, server.TLS = "tls", l.TLS, l.Certificate
		servers = append(servers, &server)
	}
	if l.Cleartext != nil {
		server := base
		server.Name, server.Listener = "cleartext", l.Cleartext
		servers = append(servers, &server)
	}
	return servers
}

// Close closes the listeners of a service that does not come to serve.
func (l Listeners) Close() {
	for _, listener := range []net.Listener{l.TLS, l.Cleartext, l.Admin} {
		if listener != nil {
			listener.Close()
		}
	}
}
