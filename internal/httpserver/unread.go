package httpserver

import (
	"net/http"
	"time"
)

// unreadWithin is how long a body may take that nobody reads: long enough for
// one that is on its way, so that its connection can be kept.
const unreadWithin = time.Second

// LeaveBody is for a handler that answers without having read the request's
// body. On HTTP/1.1 Go's server takes up to 256 KiB of such a body in before it
// lets the answer go, and waits for them as long as the client likes: a head
// without its body would hold a connection for ever, and never be answered.
// After LeaveBody it waits a second, answers, and closes the connection.
func LeaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// An error means that the connection is gone, which ends the wait too.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadWithin))
	}
}
