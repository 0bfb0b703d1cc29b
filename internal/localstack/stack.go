package localstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/internal/privatefile"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"golang.org/x/sync/errgroup"
)

// readyWithin bounds the start of all services.
const readyWithin = 30 * time.Second

// Options say how to run a stack in this process.
type Options struct {
	// Dir is where the stack's files go.
	Dir string
	// Addresses are where to listen, which Validate must accept; an empty one is a
	// free port on loopback.
	Addresses Addresses
	// Route is the config of a route that is to be tried; nil is one model of the
	// stack's own. Its units are played by the model server.
	Route *config.Config
	// Model is how the model server behaves; its listeners are filled in.
	Model modelserver.Options
	Log   *slog.Logger
	// Ready is called once everything serves and DIR/env is written, which is
	// there for as long as it does.
	Ready func(*Files)
}

// Run runs the token issuer, the proxy and the model server until ctx is done.
// Each has its own listeners and metrics, and they meet only over sockets.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Addresses.Validate(); err != nil {
		return err
	}
	dir, release, err := claim(o.Dir)
	if err != nil {
		return err
	}
	defer release()
	ports, err := listen(&o.Addresses)
	if err != nil {
		return err
	}
	defer ports.close()
	defer func() { err = errors.Join(err, removeEnv(dir)) }()
	files, err := writeFiles(&Files{Dir: dir, at: o.Addresses, route: o.Route})
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(files.Certificate(), files.Key())
	if err != nil {
		return err
	}
	serverTLS := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	issuerConfig, err := tokenissuer.LoadConfig(files.IssuerConfig())
	if err != nil {
		return err
	}
	o.Model.Listeners = httpserver.Listeners{TLS: ports.model, Certificate: serverTLS}
	o.Model.Log = o.Log.With("service", "modelserver")

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return modelserver.Run(ctx, o.Model) })
	group.Go(func() error {
		return tokenissuer.Run(ctx, tokenissuer.Options{
			Config: issuerConfig, Log: o.Log.With("service", "tokenissuer"),
			Listeners: httpserver.Listeners{TLS: ports.issuer, Certificate: serverTLS},
		})
	})
	group.Go(func() error {
		return proxy.Run(ctx, proxy.Options{
			ConfigFile: files.ProxyConfig(), Log: o.Log.With("service", "proxy"),
			Listeners: httpserver.Listeners{TLS: ports.proxy, Admin: ports.admin, Certificate: serverTLS},
		})
	})
	group.Go(func() error { return announce(ctx, files, o.Ready) })
	return group.Wait()
}

// announce writes DIR/env once the proxy is ready, which it is only when it has
// fetched the issuer's keys.
func announce(ctx context.Context, files *Files, ready func(*Files)) error {
	if err := WaitReady(ctx, files.AdminURL()); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was up
		}
		return err
	}
	if err := privatefile.Write(files.path(envFile), files.Env()); err != nil {
		return err
	}
	if ready != nil {
		ready(files)
	}
	return nil
}

// WaitReady waits until the proxy with that admin URL is ready to serve.
func WaitReady(ctx context.Context, adminURL string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	last := errors.New("never asked")
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the proxy did not get ready within %s: %w", readyWithin, last)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ports are the stack's listeners.
type ports struct{ proxy, admin, issuer, model net.Listener }

// listen opens the ports and writes down which ones they are.
func listen(at *Addresses) (p ports, err error) {
	listeners := []*net.Listener{&p.proxy, &p.admin, &p.issuer, &p.model}
	for i, address := range at.all() {
		if *address.at == "" {
			*address.at = "127.0.0.1:0"
		}
		if *listeners[i], err = net.Listen("tcp", *address.at); err != nil {
			p.close()
			return p, fmt.Errorf("port of the %s: %w", address.name, err)
		}
		*address.at = (*listeners[i]).Addr().String()
	}
	return p, nil
}

// close closes those ports that no service has taken over and closed.
func (p ports) close() {
	for _, listener := range []net.Listener{p.proxy, p.admin, p.issuer, p.model} {
		if listener != nil {
			listener.Close()
		}
	}
}
