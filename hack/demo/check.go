package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/localstack"
)

// verify counts a claim and shows whether it holds, with the numbers it rests on.
func (d *demo) verify(holds bool, format string, args ...any) {
	verdict := d.paint(green, "ok    ")
	d.passed++
	if !holds {
		verdict = d.paint(bold+red, "FAILED")
		d.passed--
		d.failed++
	}
	fmt.Fprintf(d.out, "   %s  %s\n", verdict, fmt.Sprintf(format, args...))
}

// check checks every claim that was printed.
func (d *demo) check(ctx context.Context) error {
	d.section("Check", "Every claim above, and a few more.")
	d.checkStreams()
	d.checkBooks()
	d.checkModel()
	d.checkConnections()
	roots, err := readRoots(d.stack.files.CA())
	if err != nil {
		return err
	}
	if err := d.checkGhost(ctx, roots); err != nil {
		return err
	}
	if err := d.checkStranger(ctx, roots); err != nil {
		return err
	}
	return d.checkHTTP1(ctx, roots)
}

func (d *demo) checkStreams() {
	d.verify(len(d.typed) == keystrokes && number(d.typed, lost) == 0, "every stream that was not typed through is whole: %d of %d, %d lost",
		number(d.typed, whole), keystrokes-number(d.typed, leftBefore, leftDuring), number(d.typed, lost))
	if i := slices.IndexFunc(d.typed, func(r result) bool { return r.ending == lost }); i >= 0 {
		fmt.Fprintf(d.out, "           one was lost by: %v\n", d.typed[i].err)
	}
	d.verify(number(d.typed, leftBefore) > 0 && number(d.typed, leftDuring) > 0, "cancels come both before the first byte (%d) and mid-stream (%d)",
		number(d.typed, leftBefore), number(d.typed, leftDuring))
}

func (d *demo) checkBooks() {
	c := d.counts
	b := c.books(d.typed)
	d.verify(c.cancelled == c.receive+c.queue+c.wait+c.stream, "the proxy knows how far each cancelled request had come: %.0f by phase, %.0f in all",
		c.receive+c.queue+c.wait+c.stream, c.cancelled)
	d.verify(b.balanceAtProxy(), "no cancel is lost on the way to the proxy: %d = %d never sent + %d cancelled + %d finished before the reset",
		b.cancels, b.unsent, b.atProxy, b.finished)
	d.verify(b.balanceAtModel(), "nor on the way to the model server: %d = %d never forwarded + %d cancelled + %d finished before the reset",
		b.cancels, b.unforwarded, b.atModel, b.modelFinished)
	d.verify(c.otherOutcomes == 0 && c.modelOther == 0, "no request ended in an error: %.0f at the proxy, %.0f at the model server",
		c.otherOutcomes, c.modelOther)
	d.verify(c.running == 0, "nothing is left running at the proxy or the model server: %.0f", c.running)
}

func (d *demo) checkModel() {
	c := d.counts
	b := c.books(d.typed)
	d.verify(2*b.atModel > b.cancels, "a cancel stops the model: %d of the %d that came to it", b.atModel, b.cancels-b.unforwarded)
	d.verify(c.modelCancelled == c.queued+c.prefill+c.decode && c.prefill > 0 && c.decode > 0,
		"it stops before the first token (%.0f) and mid-stream (%.0f)", c.prefill, c.decode)
	d.verify(c.savedSeconds > 0, "the cancels saved the model work: %.1f s, %.0f%% of what was asked for",
		c.savedSeconds, 100*c.savedSeconds/(c.busySeconds+c.savedSeconds))
}

func (d *demo) checkConnections() {
	c := d.counts
	d.verify(d.client.Connections() == 1 && c.clientConnections == 1, "all of it went over one connection: the client opened %d, the proxy took %.0f",
		d.client.Connections(), c.clientConnections)
	d.verify(c.connections > 0 && c.connections == c.modelConnections, "the proxy kept its connections: it opened %.0f, the model server took %.0f",
		c.connections, c.modelConnections)
}

// checkGhost asks the model server itself for what the proxy streamed.
func (d *demo) checkGhost(ctx context.Context, roots *x509.CertPool) error {
	ask, err := d.scene.request(ghostTokens)
	if err != nil {
		return err
	}
	c := newHTTPClient(roots, http2Only)
	defer c.CloseIdleConnections()
	resp, err := fetch(ctx, c, http.MethodPost, d.stack.files.ModelURL()+"/v1/completions", jsonHeader(), unary(ask))
	if err != nil {
		return err
	}
	var direct struct {
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(resp.body, &direct); err != nil || len(direct.Choices) != 1 {
		return fmt.Errorf("the model server answered %d with no completion", resp.status)
	}
	d.verify(d.ghost != "" && direct.Choices[0].Text == d.ghost, "the ghost text is the model's own, to the byte: %d bytes, asked without the proxy %d",
		len(d.ghost), len(direct.Choices[0].Text))
	return nil
}

// checkStranger asks without a token.
func (d *demo) checkStranger(ctx context.Context, roots *x509.CertPool) error {
	c := newHTTPClient(roots, http2Only)
	defer c.CloseIdleConnections()
	resp, err := fetch(ctx, c, http.MethodPost, d.stack.files.ProxyURL()+"/v1/completions", jsonHeader(), unary(client.Request{Model: localstack.Model}))
	if err != nil {
		return err
	}
	challenge := resp.header.Get("WWW-Authenticate")
	d.verify(resp.status == http.StatusUnauthorized && challenge == `Bearer realm="completions"`, "a request without a token gets %d with WWW-Authenticate: %s", resp.status, challenge)
	return nil
}

// checkHTTP1 asks on the same port by HTTP/1.1.
func (d *demo) checkHTTP1(ctx context.Context, roots *x509.CertPool) error {
	c := newHTTPClient(roots, http1Only)
	defer c.CloseIdleConnections()
	header := jsonHeader()
	header.Set("Authorization", "Bearer "+d.token)
	ask := client.Request{Model: localstack.Model, Prompt: "func main() {\n\t", MaxTokens: 4}
	resp, err := fetch(ctx, c, http.MethodPost, d.stack.files.ProxyURL()+"/v1/completions", header, unary(ask))
	if err != nil {
		return err
	}
	d.verify(resp.status == http.StatusOK && resp.proto == "HTTP/1.1", "the same port serves HTTP/1.1 too: %s, status %d", resp.proto, resp.status)
	return nil
}

// checkEnd checks how the processes ended.
func (d *demo) checkEnd(stopped []*process) {
	clean := 0
	for _, p := range stopped {
		if p.err == nil {
			clean++
			continue
		}
		fmt.Fprintf(d.out, "           the %s: %v; the end of its log:\n%s\n", p.name, p.err, tail(p.log))
	}
	d.checkLogs(stopped)
	d.verify(len(stopped) == 3 && clean == 3, "SIGTERM ended all processes cleanly: %d of %d with exit code 0", clean, len(stopped))
}

// checkLogs looks for what must not be in a log.
func (d *demo) checkLogs(stopped []*process) {
	found, bytes := 0, 0
	for _, p := range stopped {
		log, err := os.ReadFile(p.log)
		if err != nil || len(log) == 0 {
			found++ // a log that is not there proves nothing
		}
		bytes += len(log)
		for _, secret := range []string{d.stack.files.OAuthToken, d.token, strings.TrimSpace(sceneLine)} {
			if strings.Contains(string(log), secret) {
				found++
			}
		}
	}
	d.verify(found == 0, "the logs hold no login, no token and no code: %d found in %d bytes", found, bytes)
}

// unary is the body of a request for a completion in one piece.
func unary(r client.Request) []byte {
	body, err := json.Marshal(map[string]any{
		"model": r.Model, "prompt": r.Prompt, "suffix": r.Suffix, "max_tokens": max(r.MaxTokens, 1), "temperature": 0,
	})
	if err != nil {
		panic(err) // text and numbers are JSON
	}
	return body
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }
