package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/ghostline-dev/ghostline/test/bench/load"
)

const (
	nameDirect       = "direct"
	nameGhostline    = "Ghostline"
	nameReverseProxy = "ReverseProxy"
	nameHAProxy      = "HAProxy"
	nameNghttpx      = "nghttpx"
)

const (
	// completionsPath leads to the model server.
	completionsPath = "/v1/completions"
	// unitPath leads to the unit in the bench's own process.
	unitPath = "/v1/engines/unit/completions"
	// streams is what a client's connection may have open, on all of them alike.
	streams = 1000
)

// competitor is a way from the clients to the model: a proxy, or none.
type competitor struct {
	name    string
	process *process // nil if there is no proxy
	// cleartext and secure are where it takes completions, in the clear and with TLS.
	cleartext, secure string
	// admin is the admin port, if it has one.
	admin string
	// unitCleartext and unitSecure are the same for the bench's own unit.
	unitCleartext, unitSecure string
}

// starter starts a competitor.
type starter struct {
	name  string
	start func(context.Context, *rig) (*competitor, error)
}

// starters are those of all competitors in the order of the report, direct first.
func starters() []starter {
	return []starter{
		{nameDirect, direct}, {nameGhostline, ghostline}, {nameReverseProxy, reverseProxy},
		{nameHAProxy, haproxy}, {nameNghttpx, nghttpx},
	}
}

// direct has nothing between.
func direct(_ context.Context, r *rig) (*competitor, error) {
	return &competitor{
		name: nameDirect, cleartext: r.modelCleartext, secure: r.modelSecure,
		unitCleartext: r.unit.cleartext, unitSecure: r.unit.secure,
	}, nil
}

// ghostline is the program as it is run anywhere, but that nobody keeps its access log.
func ghostline(ctx context.Context, r *rig) (*competitor, error) {
	return startService(ctx, nameGhostline, filepath.Join(r.bin, "proxy"), "-listen-cleartext", "127.0.0.1:0",
		"-listen-tls", "127.0.0.1:0", "-tls-cert", r.file("tls.crt"), "-tls-key", r.file("tls.key"),
		"-listen-admin", "127.0.0.1:0", "-config", r.file("proxy.json"), "-access-log", os.DevNull)
}

// reverseProxy is the bench itself in another role.
func reverseProxy(ctx context.Context, r *rig) (*competitor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startService(ctx, nameReverseProxy, self, "-role", roleReverseProxy, "-model", r.modelCleartext, "-unit", r.unit.cleartext,
		"-tls-cert", r.file("tls.crt"), "-tls-key", r.file("tls.key"))
}

// haproxy is set up for this work as its configuration manual says:
//   - nbthread is left alone: one thread for each processor.
//   - "option abortonclose" passes cancels on, also while a request waits.
//   - http-reuse aggressive shares the connections to a server among clients.
//   - The windows and numbers of streams are those of the Go servers here, so that
//     a body of 64 KiB needs no round trip and no stream waits for another.
//   - The timeouts let idle editors stay connected.
func haproxy(ctx context.Context, r *rig) (*competitor, error) {
	program, err := find("haproxy")
	if err != nil {
		return nil, err
	}
	c, err := peer(nameHAProxy)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`global
    maxconn 8192
    tune.h2.max-concurrent-streams %d
    tune.h2.initial-window-size 1048576
defaults
    mode http
    option abortonclose
    http-reuse aggressive
    timeout connect 1s
    timeout client 1h
    timeout server 60s
frontend clients
    bind %s proto h2
    bind %s ssl crt %s alpn h2
    use_backend unit if { path %s }
    default_backend model
backend model
    server model %s proto h2
backend unit
    server unit %s proto h2
`, streams, c.cleartext, c.secure, r.file("both.pem"), unitPath, r.modelCleartext, r.unit.cleartext)
	if err := os.WriteFile(r.file("haproxy.cfg"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	// -db: in the foreground, one process.
	return c.start(ctx, program, "-db", "-f", r.file("haproxy.cfg"))
}

// nghttpx is set up for this work as its manual says:
//   - one worker for each processor;
//   - the windows and numbers of streams as for HAProxy;
//   - no OCSP, no access log, and no configuration of the system's;
//   - a read timeout that lets idle editors stay connected.
//
// Its library ends a client's connection that brings more than 1,000 resets at once
// and then more than 33 a second (CVE-2023-44487), which no option changes. The
// load of cancels therefore comes on new connections for each sample, for all.
func nghttpx(ctx context.Context, r *rig) (*competitor, error) {
	program, err := find("nghttpx")
	if err != nil {
		return nil, err
	}
	c, err := peer(nameNghttpx)
	if err != nil {
		return nil, err
	}
	return c.start(ctx, program, "--conf=/dev/null", "--workers="+strconv.Itoa(runtime.NumCPU()),
		"--frontend="+comma(c.cleartext)+";no-tls", "--frontend="+comma(c.secure),
		"--backend="+comma(r.modelCleartext)+";;proto=h2", "--backend="+comma(r.unit.cleartext)+";"+unitPath+";proto=h2",
		"--frontend-http2-max-concurrent-streams="+strconv.Itoa(streams),
		"--frontend-http2-window-size=1M", "--frontend-http2-connection-window-size=1M",
		"--frontend-http2-read-timeout=1h", "--rlimit-nofile=16384", "--no-ocsp", "--errorlog-file=/dev/stderr",
		r.file("tls.key"), r.file("tls.crt"))
}

// find is where a program is. Debian has servers in a folder that is not on
// everybody's path.
func find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(filepath.Join("/usr/sbin", program))
	if err != nil {
		return "", fmt.Errorf("%w: %s", errNotInstalled, program)
	}
	return path, nil
}

var errNotInstalled = errors.New("not installed")

// peer is a competitor whose program must be told its ports.
func peer(name string) (*competitor, error) {
	c := &competitor{name: name}
	for _, addr := range []*string{&c.cleartext, &c.secure} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // both are held until both are known
		*addr = listener.Addr().String()
	}
	c.unitCleartext, c.unitSecure = c.cleartext, c.secure
	return c, nil
}

// start starts the competitor's program and waits until it serves.
func (c *competitor) start(ctx context.Context, program string, args ...string) (*competitor, error) {
	var err error
	if c.process, err = start(ctx, c.name, program, args...); err != nil {
		return nil, err
	}
	err = c.process.await(ctx, func() error {
		conn, err := load.Target{Addr: c.cleartext}.Dial(ctx, 0)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		c.process.stop()
		return nil, err
	}
	return c, nil
}

// startService starts a program that logs where it serves, as Ghostline's do.
func startService(ctx context.Context, name, program string, args ...string) (*competitor, error) {
	c := &competitor{name: name}
	var err error
	if c.process, err = start(ctx, name, program, args...); err != nil {
		return nil, err
	}
	err = c.process.await(ctx, func() error {
		for _, text := range c.process.said.lines() {
			var line struct{ Msg, Listener, Addr string }
			if json.Unmarshal([]byte(text), &line) != nil || line.Msg != "serving" {
				continue
			}
			switch line.Listener {
			case "cleartext":
				c.cleartext = line.Addr
			case "tls":
				c.secure = line.Addr
			case "admin":
				c.admin = line.Addr
			}
		}
		if c.cleartext == "" || c.secure == "" {
			return errors.New("its log does not say where it serves")
		}
		return nil
	})
	if err != nil {
		c.process.stop()
		return nil, err
	}
	c.unitCleartext, c.unitSecure = c.cleartext, c.secure
	return c, nil
}

// connect opens the connections of a cell's clients to the competitor, or to the
// unit behind it.
func (c *competitor) connect(ctx context.Context, r *rig, cell cell, unit bool) ([]*load.Conn, error) {
	target := load.Target{Addr: c.cleartext, Header: r.clientHeader}
	if cell.tls {
		target.TLS = r.trust
	}
	switch {
	case cell.tls && unit:
		target.Addr = c.unitSecure
	case cell.tls:
		target.Addr = c.secure
	case unit:
		target.Addr = c.unitCleartext
	}
	return target.DialAll(ctx, cell.connections)
}

// comma is an address as nghttpx writes it: HOST,PORT.
func comma(addr string) string {
	host, port, _ := net.SplitHostPort(addr) // it is a listener's
	return host + "," + port
}
