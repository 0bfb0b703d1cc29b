package modelserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// faultHeader asks for a fault for one request.
const faultHeader = "Modelserver-Fault"

// faultKind is what goes wrong.
type faultKind int

const (
	faultNone faultKind = iota
	faultStatus
	faultGarbage
	faultHang
	faultBreak
	faultError
	faultNoDone
)

// beforeHeaders is the point of a fault that strikes before the answer begins.
const beforeHeaders = -1

// fault is something that is to go wrong with an answer.
type fault struct {
	kind faultKind
	// status and retryAfter are the answer of faultStatus.
	status     int
	retryAfter string
	// after is the number of events (of tokens, if the answer is not streamed)
	// after which a hang, break or error strikes, or beforeHeaders.
	after int
	// slowStart is added to the time before the first token.
	slowStart time.Duration
}

// FaultForms lists the forms of a fault, as a help text.
const FaultForms = `status=CODE        answer with this error status at once (400 to 599)
retry-after=TEXT   with status: the Retry-After header
garbage            answer 200 with a page of HTML
slow-start=TIME    take this much longer before the first token
hang=headers       work up to the first token and never answer
hang-after=N       fall silent after N events
break=headers      break the stream off before the answer begins
break-after=N      break the stream off after N events
error-first        the same as error-after=0
error-after=N      after N events send an error event and end without [DONE]
no-done            end without a finish reason and without [DONE]`

// parseFault reads a fault: forms joined by ";", of which one says what goes
// wrong. The empty text is no fault.
func parseFault(spec string) (fault, error) {
	f := fault{after: beforeHeaders}
	kinds := 0 // forms that say what goes wrong
	for part := range strings.SplitSeq(spec, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		kind, err := f.set(part)
		if err != nil {
			return fault{}, fmt.Errorf("fault %q: %w; the forms are:\n%s", part, err, FaultForms)
		}
		if kind != faultNone {
			kinds++
			f.kind = kind
		}
	}
	switch {
	case kinds > 1:
		return fault{}, fmt.Errorf("fault %q: has %d things go wrong; choose one", spec, kinds)
	case f.retryAfter != "" && f.kind != faultStatus:
		return fault{}, fmt.Errorf("fault %q: retry-after goes with status only", spec)
	case f.slowStart > 0 && (f.kind == faultStatus || f.kind == faultGarbage):
		return fault{}, fmt.Errorf("fault %q: slow-start does not go with status or garbage, which are answered at once", spec)
	}
	return f, nil
}

// set takes in one form and returns what it has go wrong, if anything.
func (f *fault) set(form string) (faultKind, error) {
	key, value, _ := strings.Cut(form, "=")
	var err error
	switch key {
	case "status":
		f.status, err = strconv.Atoi(value)
		if err != nil || f.status < 400 || f.status > 599 {
			return faultNone, errors.New("the status must be a number from 400 to 599")
		}
		return faultStatus, nil
	case "retry-after":
		f.retryAfter = value
		if value == "" {
			return faultNone, errors.New("retry-after needs a value, in seconds or as a date")
		}
		return faultNone, nil
	case "slow-start":
		f.slowStart, err = time.ParseDuration(value)
		if err != nil || f.slowStart <= 0 || f.slowStart > maxTime {
			return faultNone, fmt.Errorf("slow-start needs a time above zero and up to %s, as in 500ms", maxTime)
		}
		return faultNone, nil
	case "hang", "break":
		if value != "headers" {
			return faultNone, fmt.Errorf("the value must be headers; to strike later use %s-after=N", key)
		}
		return map[string]faultKind{"hang": faultHang, "break": faultBreak}[key], nil
	case "hang-after":
		return faultHang, f.setAfter(value)
	case "break-after":
		return faultBreak, f.setAfter(value)
	case "error-after":
		return faultError, f.setAfter(value)
	}
	switch form {
	case "error-first":
		f.after = 0
		return faultError, nil
	case "no-done":
		return faultNoDone, nil
	case "garbage":
		return faultGarbage, nil
	}
	return faultNone, errors.New("there is no such fault")
}

func (f *fault) setAfter(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return errors.New("the number of events must be a number from 0")
	}
	f.after = n
	return nil
}

// strikesAt reports whether a hang, break or error is due after this many events.
func (f *fault) strikesAt(events int) bool {
	switch f.kind {
	case faultHang, faultBreak, faultError:
		return events == f.after
	default:
		return false
	}
}

// answerAtOnce answers in place of the engine, if the fault is of that kind.
func (f *fault) answerAtOnce(w http.ResponseWriter) bool {
	switch f.kind {
	case faultStatus:
		if f.retryAfter != "" {
			w.Header().Set("Retry-After", f.retryAfter)
		}
		failure := &apiError{status: f.status, code: "fault", message: "the model server was told to fail"}
		failure.write(w)
	case faultGarbage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><title>It works</title><p>It works, but it is no model.</p>\n"))
	default:
		return false
	}
	return true
}

// faultFor returns the fault of a request: its own, or else the server's.
func (s *Server) faultFor(r *http.Request) (fault, error) {
	if spec := r.Header.Get(faultHeader); spec != "" {
		f, err := parseFault(spec)
		if err != nil {
			return fault{}, invalid("", "header %s: %s", faultHeader, err)
		}
		return f, nil
	}
	return *s.fault.Load(), nil
}

// SetFault has every request from now on go wrong as spec says, which is forms
// of [FaultForms] joined by ";" or empty for nothing. A request that asks for a
// fault of its own, in the header Modelserver-Fault, gets that one.
func (s *Server) SetFault(spec string) error {
	f, err := parseFault(spec)
	if err != nil {
		return err
	}
	s.fault.Store(&f)
	return nil
}
