package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"golang.org/x/sync/errgroup"
)

// roleReverseProxy has the bench's program be the peer.
const roleReverseProxy = "reverseproxy"

// runReverseProxy is the standard library's proxy, set up as one would for streams.
func runReverseProxy(ctx context.Context, o options) error {
	model, unit := &url.URL{Scheme: "http", Host: o.model}, &url.URL{Scheme: "http", Host: o.unit}
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if r.In.URL.Path == unitPath {
				r.SetURL(unit)
			} else {
				r.SetURL(model)
			}
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range []string{"cleartext", "tls"} {
		server := &http.Server{Handler: proxy, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams}}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, `{"msg":"serving","listener":%q,"addr":%q}`+"\n", name, listener.Addr().String())
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
		group.Go(func() error {
			if name == "tls" {
				server.Protocols.SetHTTP2(true)
				err = server.ServeTLS(listener, o.certFile, o.keyFile)
			} else {
				server.Protocols.SetUnencryptedHTTP2(true)
				err = server.Serve(listener)
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}
