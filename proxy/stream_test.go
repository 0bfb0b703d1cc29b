package proxy

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestBroken has an answer break off after its first byte: who was it?
func TestBroken(t *testing.T) {
	blocked := errors.New("a write failed")
	for name, tc := range map[string]struct {
		client, cause error // of the write to the client, of the end of the exchange
		outcome       outcome
		attempt       string
	}{
		"the unit breaks off":      {nil, nil, outcomeUpstreamError, attemptBroken},
		"the unit falls silent":    {nil, errTooLate, outcomeTimeout, attemptTimeout},
		"the client resets":        {nil, context.Canceled, outcomeCancelled, attemptCancelled},
		"the client goes away":     {blocked, nil, outcomeCancelled, attemptCancelled},
		"the client does not read": {blocked, errTooLate, outcomeTimeout, attemptCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tc.cause != nil {
				cancel(tc.cause)
			}
			a := &answer{
				x:   &exchange{unit: &unit{Unit: config.Unit{Name: "u"}}},
				ctx: ctx, clock: new(clock), out: &clientStream{err: tc.client},
			}
			err := a.broken(io.ErrUnexpectedEOF)
			if got := outcomeOf(err); got != tc.outcome {
				t.Errorf("outcome %s, want %s", got, tc.outcome)
			}
			if got := resultOf(err); got != tc.attempt {
				t.Errorf("attempt %s, want %s", got, tc.attempt)
			}
		})
	}
}
