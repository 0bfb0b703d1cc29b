package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/ghostline-dev/ghostline/internal/oneline"
	"golang.org/x/net/http2"
)

// maxTries bounds how often a request is sent. One retry is enough for a
// connection that went away; more would multiply the load of an outage.
const maxTries = 2

// refusalWait is how long the body of a refusal may take.
const refusalWait = 5 * time.Second

const (
	completionsPath = "/v1/completions"
	feedbackPath    = "/v1/feedback"
)

// Event is a piece of the answer.
type Event struct {
	// Index is the choice that Text belongs to, below Request.N.
	Index int
	Text  string
	// FinishReason is set on a choice's last event: "stop", "length", ...
	FinishReason string
	// Variant is the version of the model that serves, as the proxy names it: what
	// Feedback.Variant wants.
	Variant string
	// Usage is set on the very last event, which has no text, if Request.Usage
	// asked for it and the proxy sent it.
	Usage *Usage
}

// Usage is the token count of a completion.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// Complete streams a completion. It asks when the iteration starts, and again
// each time the sequence is iterated.
//
// The sequence ends without an error after the stream's [DONE], or after a clean
// end of the stream once every choice has had its FinishReason. Anything else
// ends with one error: ErrTruncated for a stream that broke off, *Error for a
// refusal (both, for an error that came mid-stream), *IssuerError for a token
// that could not be had, or ctx's error.
//
// Breaking out of the loop or cancelling ctx resets the stream at once
// (RST_STREAM with CANCEL), which stops the model; the connection stays.
//
// A request that got no answer because the connection went away or the proxy
// refused the stream is sent once more, with the same request id: a completion
// changes nothing, so a repetition can only cost time. A 401 leads to one new
// token and one more try. Nothing is retried once the answer has begun.
func (c *Client) Complete(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answer, err := c.ask(ctx, r)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer answer.close()
		answer.each(ctx, yield)
	}
}

// ask sends r and returns the answer once its headers say that it streams.
func (c *Client) ask(ctx context.Context, r Request) (a *answer, err error) {
	body, id, err := r.encode()
	if err != nil {
		return nil, err
	}
	err = c.withToken(ctx, func(token string) (err error) {
		a, err = c.post(ctx, message{completionsPath, token, id, body}, max(r.N, 1))
		return err
	})
	if err != nil {
		return nil, err
	}
	if media, _, _ := mime.ParseMediaType(a.resp.Header.Get("Content-Type")); a.resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		defer a.close()
		return nil, fmt.Errorf("the proxy answered with content type %q, want text/event-stream: is this the proxy's address?", oneline.Clean(media))
	}
	return a, nil
}

// withToken does something with a completion token, and once more with a new one
// if the proxy refuses it.
func (c *Client) withToken(ctx context.Context, do func(token string) error) error {
	token, err := c.tokens.Token(ctx)
	if err != nil {
		return err
	}
	err = do(token)
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Status != http.StatusUnauthorized {
		return err
	}
	c.tokens.Invalidate(token)
	renewed, tokenErr := c.tokens.Token(ctx)
	if tokenErr != nil {
		return tokenErr
	}
	if renewed == token {
		return err // there is none better
	}
	return do(renewed)
}

// message is what is sent to one of the proxy's paths.
type message struct {
	path, token, id string
	body            []byte
}

// post sends m and returns the answer, which is of that many choices. One with
// another status than 2xx is an *Error.
func (c *Client) post(ctx context.Context, m message, choices int) (*answer, error) {
	resp, l, err := c.send(ctx, func() (*http.Request, error) { return c.request(ctx, m) })
	if err != nil {
		return nil, err
	}
	a := newAnswer(c.conn, l, resp, choices)
	if resp.StatusCode/100 != 2 {
		defer a.close()
		defer time.AfterFunc(refusalWait, a.close).Stop()
		return nil, errorFrom(resp)
	}
	return a, nil
}

// send does the round trip, on a new connection if the old one had gone. The
// link is the caller's to release.
func (c *Client) send(ctx context.Context, build func() (*http.Request, error)) (*http.Response, *link, error) {
	for try := 1; ; try++ {
		req, err := build()
		if err != nil {
			return nil, nil, err
		}
		l, err := c.conn.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		resp, err := l.cc.RoundTrip(req)
		if err == nil {
			return resp, l, nil
		}
		again := ctx.Err() == nil && (c.conn.lost(l, err) || refused(err))
		c.conn.release(l)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if !again || try == maxTries {
			return nil, nil, fmt.Errorf("completion request: %w", err)
		}
	}
}

// refused says whether the proxy turned the stream away unprocessed (RFC 9113
// section 8.7).
func refused(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream
}

func (c *Client) request(ctx context.Context, m message) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+m.path, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+m.token)
	req.Header.Set("Content-Type", "application/json")
	if m.path == completionsPath {
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Header.Set("X-Request-Id", m.id)
	req.Header.Set("X-Session-Id", c.session)
	req.Header.Set("User-Agent", c.plugin.String())
	req.Header.Set("Editor-Plugin-Version", c.plugin.String())
	if c.editor != (Product{}) {
		req.Header.Set("Editor-Version", c.editor.String())
	}
	return req, nil
}
