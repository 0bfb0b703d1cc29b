package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localstack"
)

const (
	readyWithin = 30 * time.Second
	stopWithin  = 15 * time.Second
	// logTail is how much of the log of a process that died is shown, in lines.
	logTail = 12
)

// How the model server behaves: like a small model on a busy GPU.
const (
	firstToken       = 60 * time.Millisecond
	firstTokenPerKiB = 4 * time.Millisecond
	tokensPerSecond  = 80
	slots            = 6
	step             = 10 * time.Millisecond
)

// stack is the services as processes.
type stack struct {
	binaries, corpus string
	// died is told of a process that ends before it is stopped.
	died func(error)

	files         *localstack.Files
	issuer, model *process
	proxy         *process
	started       []*process
}

// process is a running service.
type process struct {
	name, about string
	url         string // of its traffic
	admin       string // of its admin port
	log         string // a file
	cmd         *exec.Cmd
	stopped     chan struct{} // closed once stop wants it to end
	ended       chan struct{} // closed once it has, with err
	err         error
}

// start writes the files of a stack to dir and starts the processes, the proxy
// last because it asks the issuer for its keys. It calls ready for each.
func (s *stack) start(ctx context.Context, dir string, ready func(*process, time.Duration)) error {
	ports, err := freePorts(6)
	if err != nil {
		return err
	}
	if s.files, err = localstack.WriteFiles(dir, localstack.Addresses{Issuer: ports[0], Model: ports[1], Proxy: ports[2], Admin: ports[3]}); err != nil {
		return err
	}
	s.issuer = s.process("token issuer", "tokenissuer", ports[0], ports[4], "-config", s.files.IssuerConfig())
	s.issuer.about = "signs tokens that live for 25 minutes"
	s.model = s.process("model server", "modelserver", ports[1], ports[5],
		"-corpus", filepath.Join(s.corpus, "proxy"), "-corpus", filepath.Join(s.corpus, "client"),
		"-corpus", filepath.Join(s.corpus, "internal"), "-first-token", firstToken.String(), "-first-token-per-kib", firstTokenPerKiB.String(),
		"-tokens-per-second", fmt.Sprint(tokensPerSecond), "-slots", fmt.Sprint(slots), "-step", step.String())
	s.model.about = fmt.Sprintf("%d slots, first token in %s + %s/KiB, then %d a second", slots, firstToken, firstTokenPerKiB, tokensPerSecond)
	s.proxy = s.process("proxy", "proxy", ports[2], ports[3], "-config", s.files.ProxyConfig(), "-drain-delay", "0s")
	s.proxy.about = "one model, one unit"
	for _, p := range []*process{s.issuer, s.model, s.proxy} {
		began := time.Now()
		if err := s.launch(p); err != nil {
			return err
		}
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
		ready(p, time.Since(began))
	}
	return nil
}

// freePorts finds loopback ports that are free. They are only known to have been
// free: a process that finds its port taken says so and ends.
func freePorts(n int) ([]string, error) {
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all at the end, so that none comes twice
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// process describes a service. Its arguments name files; what is secret is in
// the files.
func (s *stack) process(name, binary, traffic, admin string, args ...string) *process {
	args = append(args, "-listen-tls", traffic, "-tls-cert", s.files.Certificate(), "-tls-key", s.files.Key(), "-listen-admin", admin)
	return &process{
		name: name, url: "https://" + traffic, admin: "http://" + admin,
		log: filepath.Join(s.files.Dir, binary+".log"), cmd: exec.Command(filepath.Join(s.binaries, binary), args...),
		stopped: make(chan struct{}), ended: make(chan struct{}),
	}
}

// launch starts p and watches it.
func (s *stack) launch(p *process) error {
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w; make build makes it", p.name, err)
	}
	s.started = append(s.started, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
		select {
		case <-p.stopped:
		default:
			s.died(fmt.Errorf("the %s ended by itself (%s); the end of its log:\n%s", p.name, p.cmd.ProcessState, tail(p.log)))
		}
	}()
	return nil
}

// awaitReady waits until p says that it is ready.
func (p *process) awaitReady(ctx context.Context) error {
	err := await(ctx, readyWithin, func(ctx context.Context) error {
		resp, err := get(ctx, http.DefaultClient, p.admin+"/readyz")
		if err != nil {
			return err
		}
		if resp.status != http.StatusOK {
			return fmt.Errorf("status %d", resp.status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the %s is not ready: %w; the end of its log:\n%s", p.name, err, tail(p.log))
	}
	return nil
}

// stop asks the processes to end, the last one first, waits for them, and
// returns those that did, each with its err. Stopping twice does nothing.
func (s *stack) stop() []*process {
	stopped := s.started
	s.started = nil
	for i := len(stopped) - 1; i >= 0; i-- {
		stopped[i].stop()
	}
	return stopped
}

func (p *process) stop() {
	close(p.stopped)
	// An error means that it has ended already, which p.err shows.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.err = errors.Join(fmt.Errorf("did not end within %s of SIGTERM", stopWithin), p.err)
	}
}

// tail is the end of a log.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-logTail):], "\n  ")
}

// await asks until is returns nil, for as long as within. It returns is's last
// error if that does not come, or why ctx ended.
func await(ctx context.Context, within time.Duration, is func(context.Context) error) error {
	const pause = 20 * time.Millisecond
	deadline := time.Now().Add(within)
	for {
		err := is(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %w", within, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
