package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

const (
	issuer   = "https://tokens.bench"
	audience = "completions.bench"
	// clockTicks is how many of /proc's ticks a second has: USER_HZ is 100 on
	// every Linux that Go runs on.
	clockTicks = 100
)

// rig is the processes under test: a model server, the proxy and its peer in
// front of it, and units of our own for what needs one clock.
type rig struct {
	dir       string
	token     string
	model     *process
	ghostline *process
	peer      *process
	// direct has no proxy between.
	direct *process
	unit   *cancelUnit
	// toUnit are the same proxies in front of unit.
	toUnit     map[string]string
	cancellers map[string]*http.Client
}

// process is a proxy, and how to ask it.
type process struct {
	name string
	url  string // of completions that a model server answers
	// admin is the admin port's URL, if the process has one.
	admin string
	cmd   *exec.Cmd
}

func (r *rig) proxies() []*process { return []*process{r.ghostline, r.peer} }

func startRig(ctx context.Context, o options) (r *rig, err error) {
	r = &rig{cancellers: map[string]*http.Client{}}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "ghostline-bench-"); err != nil {
		return nil, err
	}
	if r.unit, err = startCancelUnit(); err != nil {
		return nil, err
	}
	if r.model, err = start(ctx, "modelserver", filepath.Join(o.bin, "modelserver"), "-listen-cleartext", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if err := r.writeFiles(r.model.url, r.unit.url); err != nil {
		return nil, err
	}
	r.ghostline, err = start(ctx, "ghostline", filepath.Join(o.bin, "proxy"), "-listen-cleartext", "127.0.0.1:0",
		"-listen-admin", "127.0.0.1:0", "-config", filepath.Join(r.dir, "proxy.json"))
	if err != nil {
		return nil, err
	}
	if r.peer, err = start(ctx, "ReverseProxy", os.Args[0], "-role", "reverseproxy", "-unit", r.model.url); err != nil {
		return nil, err
	}
	toUnit, err := start(ctx, "ReverseProxy", os.Args[0], "-role", "reverseproxy", "-unit", r.unit.url)
	if err != nil {
		return nil, err
	}
	r.direct = &process{name: "direct", url: r.model.url}
	r.toUnit = map[string]string{r.ghostline.name: r.ghostline.url, r.peer.name: toUnit.url, r.direct.name: r.unit.url}
	return r, nil
}

// writeFiles writes the proxy's config, with a model behind the model server
// and one behind the unit of our own, and signs a token.
func (r *rig) writeFiles(model, unit string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	signer := token.Signer{KeyID: token.Thumbprint(public), Key: private}
	r.token, err = signer.Sign(token.Claims{Issuer: issuer, Audience: audience, Subject: "bench", IssuedAt: now,
		Expires: now.Add(24 * time.Hour), ID: "bench", ClientID: "bench"})
	if err != nil {
		return err
	}
	keys, err := json.Marshal(token.NewKeySet(public))
	if err != nil {
		return err
	}
	c := config.Config{
		Region: "bench",
		Tokens: config.Tokens{Issuer: issuer, Audience: audience, KeySet: config.KeySet{File: "jwks.json"}},
		Limits: config.Limits{PerSubject: config.SubjectLimits{InFlight: 10_000, RequestsPerSecond: 1e6, Burst: 1e6}},
	}
	for name, url := range map[string]string{"model": model, "unit": unit} {
		c.Models = append(c.Models, config.Model{Name: name, Variants: []config.Variant{{Name: "only", Weight: 1}}})
		c.Units = append(c.Units, config.Unit{Name: name, Region: "bench", Serves: name + "/only", Provider: config.ProviderOpenAI,
			URL: url + "/v1/completions", Protocol: config.ProtocolH2C})
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.dir, "jwks.json"), keys, 0o600),
		os.WriteFile(filepath.Join(r.dir, "proxy.json"), data, 0o600),
	)
}

func (r *rig) stop() {
	for _, p := range []*process{r.ghostline, r.peer, r.model} {
		if p != nil && p.cmd != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait() // it was killed, so the error says only that
		}
	}
	if r.unit != nil {
		r.unit.stop()
	}
	os.RemoveAll(r.dir)
}

// start starts a program and waits for it to log where it serves.
func start(ctx context.Context, name, program string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w; build the programs with `make build`", name, err)
	}
	p := &process{name: name, cmd: cmd}
	lines := bufio.NewScanner(stderr)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		var line struct{ Msg, Listener, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "serving" {
			continue
		}
		switch line.Listener {
		case "cleartext":
			p.url = "http://" + line.Addr
		case "admin":
			p.admin = "http://" + line.Addr
		}
		if p.url != "" && (p.admin != "" || !slices.Contains(args, "-listen-admin")) {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s did not come to serve: %s", name, strings.Join(seen, "\n"))
}

// processorTime is what the process has used so far, all threads, user and system.
func (p *process) processorTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / clockTicks, errors.Join(err1, err2)
}

func (p *process) residentMiB() (float64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	return float64(pages*os.Getpagesize()) / (1 << 20), err
}

// runReverseProxy is the peer: the standard library's proxy, set up as one would
// for streams.
func runReverseProxy(ctx context.Context, o options) error {
	unit, err := url.Parse(o.unit)
	if err != nil {
		return err
	}
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(unit) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := &http.Server{Handler: proxy, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}}
	server.Protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, `{"msg":"serving","listener":"cleartext","addr":%q}`+"\n", listener.Addr().String())
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
