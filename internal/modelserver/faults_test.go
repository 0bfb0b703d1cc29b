package modelserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

const (
	askStream = `{"prompt":"func New(","max_tokens":8,"temperature":0,"stream":true}`
	askWhole  = `{"prompt":"func New(","max_tokens":8,"temperature":0}`
)

// onEachProtocol runs a test with a server of its own for each.
func onEachProtocol(t *testing.T, test func(*testing.T, *serving, client)) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, Options{})
			test(t, s, s.clients[protocol])
		})
	}
}

func TestFaultStatus(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		for _, ask := range []string{askStream, askWhole} {
			response, body := c.get(t, ask, "status=503;retry-after=2")
			if response.StatusCode != 503 || response.Header.Get("Retry-After") != "2" || !strings.Contains(body, `"type":"server_error"`) {
				t.Errorf("got %s %v %s", response.Status, response.Header, body)
			}
			response, body = c.get(t, ask, "status=429")
			if response.StatusCode != 429 || response.Header.Values("Retry-After") != nil || !strings.Contains(body, `"type":"rate_limit_error"`) {
				t.Errorf("got %s %v %s", response.Status, response.Header, body)
			}
		}
		s.until(t, "four faults", func(got Stats) bool { return got.Fault == 4 && got.Tokens == 0 && got.Inflight == 0 })
	})
}

func TestFaultGarbage(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		response, body := c.get(t, askStream, "garbage")
		if response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") || !strings.HasPrefix(body, "<!DOCTYPE html>") {
			t.Errorf("got %s %v %s", response.Status, response.Header, body)
		}
		s.until(t, "a fault", func(got Stats) bool { return got.Fault == 1 })
	})
}

func TestFaultBreak(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		for _, after := range []int{0, 3, 8} {
			response, err := c.post(t.Context(), strings.NewReader(askStream), fmt.Sprintf("break-after=%d", after))
			if err != nil {
				t.Fatalf("after %d: no headers: %v", after, err)
			}
			content, err := io.ReadAll(response.Body)
			response.Body.Close()
			if all := events(t, string(content)); len(all) != after {
				t.Errorf("after %d: got %q", after, all)
			}
			checkBroken(t, response.ProtoMajor, err)
		}
		for _, ask := range []string{askStream, askWhole} {
			_, err := c.post(t.Context(), strings.NewReader(ask), "break=headers")
			checkBroken(t, 0, err)
		}
		_, err := c.post(t.Context(), strings.NewReader(askWhole), "break-after=3")
		checkBroken(t, 0, err)
		s.until(t, "six faults", func(got Stats) bool { return got.Fault == 6 && got.Inflight == 0 && got.Working == 0 })
	})
}

// checkBroken checks that an answer ended in a stream reset or, over HTTP/1.1,
// in the middle. Protocol 0 is any.
func checkBroken(t *testing.T, protocol int, err error) {
	t.Helper()
	var reset http2.StreamError
	switch {
	case err == nil:
		t.Error("the answer looks complete")
	case protocol == 2 && !(errors.As(err, &reset) && reset.Code == http2.ErrCodeInternal) && !strings.Contains(err.Error(), "INTERNAL_ERROR"):
		t.Errorf("error %v; want a stream reset", err)
	case protocol == 1 && !errors.Is(err, io.ErrUnexpectedEOF):
		t.Errorf("error %v; want an early end", err)
	}
}

func TestFaultHang(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		for i, ask := range []string{askStream, askWhole} {
			before := int64(i)
			cancel, _ := start(t, c, ask, "hang=headers")
			s.until(t, "work", func(got Stats) bool { return got.Working == 1 })
			cancel()
			s.until(t, "a cancel in prefill", func(got Stats) bool { return got.CancelledPrefill == before+1 && got.Inflight == 0 })

			cancel, _ = start(t, c, ask, "hang-after=3")
			s.until(t, "three tokens", func(got Stats) bool { return got.Tokens == 3*(before+1) })
			cancel()
			s.until(t, "a cancel in decode", func(got Stats) bool { return got.CancelledDecode == before+1 && got.Inflight == 0 })
		}
	})
}

func TestFaultError(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		for fault, after := range map[string]int{"error-first": 0, "error-after=3": 3} {
			response, body := c.get(t, askStream, fault)
			all := events(t, body)
			if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" || len(all) != after+1 ||
				!strings.HasPrefix(all[after], `{"error":{"message":`) {
				t.Errorf("%s: got %s %q", fault, response.Status, all)
			}
			if response, body := c.get(t, askWhole, fault); response.StatusCode != 500 || !strings.HasPrefix(body, `{"error":`) {
				t.Errorf("%s: got %s %q", fault, response.Status, body)
			}
		}
		s.until(t, "four faults", func(got Stats) bool { return got.Fault == 4 && got.Inflight == 0 })
	})
}

func TestFaultNoDone(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		_, body := c.get(t, askStream, "no-done")
		all := events(t, body)
		if len(all) != 8 || strings.Contains(body, "[DONE]") || strings.Contains(body, `"finish_reason":"`) {
			t.Errorf("got %q; want 8 tokens and no end", all)
		}
		_, body = c.get(t, askWhole, "no-done")
		if got := decode(t, body); got.Choices[0].FinishReason != nil || got.Choices[0].Text == "" {
			t.Errorf("got %s; want no finish reason", body)
		}
		s.until(t, "two faults", func(got Stats) bool { return got.Fault == 2 && got.Inflight == 0 })
	})
}

func TestFaultSlowStart(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, s *serving, c client) {
		if _, body := c.get(t, askStream, "slow-start=1ms"); !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("got %q", body)
		}
		cancel, _ := start(t, c, askStream, "slow-start=1h")
		s.until(t, "work", func(got Stats) bool { return got.Working == 1 })
		cancel()
		s.until(t, "a cancel in prefill", func(got Stats) bool { return got.CancelledPrefill == 1 && got.OK == 1 && got.Saved > 0 })
	})
}

func TestFaultForAll(t *testing.T) {
	s := serve(t, Options{Fault: "status=500"})
	c := s.clients["h2c"]
	expect := func(status int, faults ...string) {
		t.Helper()
		if response, body := c.get(t, askStream, faults...); response.StatusCode != status {
			t.Errorf("got %s %s; want %d", response.Status, body, status)
		}
	}
	expect(500)
	expect(418, "status=418") // the request's own comes first
	if err := s.SetFault("nonsense"); err == nil {
		t.Error("SetFault takes nonsense")
	}
	expect(500)
	if status, body := fetch(t, s, http.MethodPost, s.admin+"/fault", "status=599\n"); status != http.StatusNoContent {
		t.Errorf("POST /fault: %d %s", status, body)
	}
	expect(599)
	if status, body := fetch(t, s, http.MethodPost, s.admin+"/fault", "nonsense"); status != 400 || !strings.Contains(body, "the forms are") {
		t.Errorf("POST /fault: %d %s", status, body)
	}
	expect(599)
	if status, _ := fetch(t, s, http.MethodPost, s.admin+"/fault", ""); status != http.StatusNoContent {
		t.Errorf("POST /fault: %d", status)
	}
	expect(200)
	if status, _ := fetch(t, s, http.MethodPost, s.clients["h1"].url+"/fault", "status=500"); status != 404 {
		t.Errorf("POST /fault on the traffic port: %d; want 404", status)
	}
}
