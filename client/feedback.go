package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
)

// FeedbackEvent is what became of a completion.
type FeedbackEvent string

// The events that there are.
const (
	Shown    FeedbackEvent = "shown"
	Accepted FeedbackEvent = "accepted"
	Rejected FeedbackEvent = "rejected"
)

// Feedback tells what a user made of a completion. Variants of a model are judged
// by it.
type Feedback struct {
	// RequestID is that of the completion's [Request], which must have set one.
	RequestID string
	Event     FeedbackEvent
	// Model is the Request's, and Variant that of the answer's events. A proxy
	// needs them for a completion that another one of its region served.
	Model   string
	Variant string
}

// Feedback sends f. A proxy that knows no such completion answers with an *Error
// of status 404; nothing is to be done about it.
func (c *Client) Feedback(ctx context.Context, f Feedback) error {
	body, err := json.Marshal(map[string]string{
		"request_id": f.RequestID, "event": string(f.Event), "model": f.Model, "variant": f.Variant,
	})
	if err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	return c.withToken(ctx, func(token string) error {
		a, err := c.post(ctx, message{feedbackPath, token, uuid.NewString(), body}, 0)
		if err == nil {
			a.close()
		}
		return err
	})
}
