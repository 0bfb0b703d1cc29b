package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	concurrency = 64
	connections = 4
	// events of text; the model server adds one that ends the choice.
	events = 9

	phaseWait   = "wait"   // no byte of the answer yet
	phaseStream = "stream" // after the first event
)

// requestBody has a prompt of 4 KiB that looks like code.
func requestBody(model string) []byte {
	line := "\\tif err := run(ctx, options); err != nil { return err }\\n"
	prompt := strings.Repeat(line, 4096/len(line)+1)[:4096]
	prompt = strings.TrimRight(prompt, "\\")
	return fmt.Appendf(nil, `{"model":%q,"prompt":"%s","max_tokens":%d,"temperature":0,"stream":true}`, model, prompt, events)
}

func newClient() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

func (r *rig) request(ctx context.Context, url string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// run sends n completions and returns the proxy's processor time for each, in
// microseconds, and how many came a second.
func (r *rig) run(ctx context.Context, p *process, n int) (cost, rate float64, err error) {
	before, err := p.processorTime()
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := r.load(ctx, p, n, false); err != nil {
		return 0, 0, err
	}
	took := time.Since(begun)
	after, err := p.processorTime()
	return float64((after - before).Microseconds()) / float64(n), float64(n) / took.Seconds(), err
}

// load sends n completions, every other one cancelled after its first event if
// cancels is set.
func (r *rig) load(ctx context.Context, p *process, n int, cancels bool) error {
	body := requestBody("model")
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range connections {
		client := newClient()
		defer client.CloseIdleConnections()
		for range concurrency / connections {
			group.Go(func() error {
				for {
					i := next.Add(1)
					if i > int64(n) {
						return nil
					}
					if err := r.complete(ctx, client, p, body, cancels && i%2 == 0); err != nil {
						return fmt.Errorf("%s: %w", p.name, err)
					}
				}
			})
		}
	}
	return group.Wait()
}

// complete reads one completion to its end, or cancels it after its first event.
func (r *rig) complete(ctx context.Context, client *http.Client, p *process, body []byte, cancel bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	req, err := r.request(ctx, p.url, body)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	if cancel {
		_, err := resp.Body.Read(make([]byte, 64))
		return err
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(data, []byte("data: [DONE]\n\n")) {
		return errors.New("a stream without its end")
	}
	return nil
}

// cancelUnit is a unit in this process, so that a cancel is timed by one clock.
type cancelUnit struct {
	url    string
	server *http.Server
	begun  chan struct{}  // a request has come
	gone   chan time.Time // its client was gone
}

func startCancelUnit() (*cancelUnit, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &cancelUnit{url: "http://" + listener.Addr().String(), begun: make(chan struct{}, 1), gone: make(chan time.Time, 1)}
	u.server = &http.Server{Handler: u, Protocols: new(http.Protocols)}
	u.server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = u.server.Serve(listener) }() // ends when stop closes it
	return u, nil
}

func (u *cancelUnit) stop() { u.server.Close() }

// ServeHTTP answers with one event and then nothing, or, if the prompt asks to
// wait, with nothing at all, until its client is gone.
func (u *cancelUnit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.Contains(body, []byte(`"prompt":"`+phaseWait+`"`)) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"text":"x","index":0,"finish_reason":null}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	u.begun <- struct{}{}
	<-r.Context().Done()
	u.gone <- time.Now()
}

// timeCancel cancels one completion and returns how long the unit's handler took
// to know.
func (r *rig) timeCancel(ctx context.Context, p *process, phase string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := r.request(ctx, r.toUnit[p.name], fmt.Appendf(nil, `{"model":"unit","prompt":%q,"stream":true}`, phase))
	if err != nil {
		return 0, err
	}
	client := r.canceller(p)
	ended := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			ended <- err
			return
		}
		defer resp.Body.Close()
		_, err = resp.Body.Read(make([]byte, 64))
		close(first)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
		}
		ended <- err
	}()
	<-r.unit.begun
	if phase == phaseStream {
		<-first
	}
	begun := time.Now()
	cancel()
	took := (<-r.unit.gone).Sub(begun)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return 0, fmt.Errorf("%s: a cancelled completion ended with %v", p.name, err)
	}
	return took, nil
}

// canceller is one client for each proxy, so that connections are warm.
func (r *rig) canceller(p *process) *http.Client {
	if r.cancellers[p.name] == nil {
		r.cancellers[p.name] = newClient()
	}
	return r.cancellers[p.name]
}
