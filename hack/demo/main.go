// Command demo shows the whole of Ghostline on this machine: it starts the token
// issuer, the proxy and the model server as processes, logs in, streams a
// completion, and types as a user does, so that half of the requests are
// cancelled. Every claim that it prints is checked; `make demo` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ghostline-dev/ghostline/client"
)

// exitInterrupted is what a shell makes of a program that SIGINT ended.
const exitInterrupted = 130

var errInterrupted = errors.New("interrupted")

func main() {
	binaries := flag.String("bin", "bin", "`directory` of the binaries that make build makes")
	repository := flag.String("repository", ".", "`directory` of the source that is completed and that the model is trained on")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; everything is given by flags\n", flag.Arg(0))
		os.Exit(2)
	}
	// A closed terminal must not leave a login lying about either.
	signals, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	d := &demo{screen: newScreen(os.Stdout), binaries: *binaries, repository: *repository}
	err := d.run(signals)
	interrupted := signals.Err() != nil
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
	}
	switch {
	case interrupted:
		os.Exit(exitInterrupted)
	case err != nil || d.failed > 0:
		os.Exit(1)
	}
}

// demo is one showing.
type demo struct {
	*screen
	binaries, repository string

	stack  *stack
	tokens *client.TokenSource
	token  string // a secret
	client *client.Client
	scene  *scene
	ghost  string // the completion of the scene
	typed  []result
	counts counts // of the typist's requests

	passed, failed int
}

// run shows everything. An error is what kept the show from going on; a claim
// that did not hold is counted in d.failed.
func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "ghostline-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d.title("Ghostline on this machine")
	if d.scene, err = findScene(d.repository); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errInterrupted)
	d.stack = &stack{binaries: d.binaries, corpus: d.repository, died: cancel}
	defer func() { d.stack.stop() }()
	err = d.show(ctx, dir)
	if ctx.Err() != nil {
		return context.Cause(ctx) // what ended it, and not what broke because of that
	}
	if err != nil {
		return err
	}
	d.checkEnd(d.stack.stop())
	fmt.Fprintf(d.out, "\ndemo: %d checks passed, %d failed  (%.0f s)\n", d.passed, d.failed, time.Since(began).Seconds())
	return nil
}

// show goes through the steps up to where the processes are stopped.
func (d *demo) show(ctx context.Context, dir string) error {
	defer d.disconnect()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return d.start(ctx, dir) },
		d.logIn,
		d.complete,
		d.typeOn,
		d.table,
		d.check,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the processes.
func (d *demo) start(ctx context.Context, dir string) error {
	d.section("Start", "Three processes that meet only over TLS on loopback.")
	return d.stack.start(ctx, dir, func(p *process, took time.Duration) {
		d.row(p.name, "%-23s ready in %6s; %s", p.url, milliseconds(took), p.about)
	})
}

// disconnect closes what logIn made.
func (d *demo) disconnect() {
	if d.client != nil {
		d.client.Close()
	}
	if d.tokens != nil {
		d.tokens.Close()
	}
}
