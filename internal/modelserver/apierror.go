package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is an error in OpenAI's form. Its message is for the client.
type apiError struct {
	status  int
	message string
	param   string // the field at fault, if one is
	code    string
}

func (e *apiError) Error() string { return e.message }

// invalid is a 400 about the field param.
func invalid(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, param: param, message: fmt.Sprintf(format, args...)}
}

// body is the error as JSON.
func (e *apiError) body() []byte {
	kind := "invalid_request_error"
	switch {
	case e.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case e.status >= 500:
		kind = "server_error"
	}
	type fields struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	body, err := json.Marshal(map[string]fields{"error": {e.message, kind, orNull(e.param), orNull(e.code)}})
	if err != nil {
		panic(err) // strings always marshal
	}
	return body
}

// write answers with the error.
func (e *apiError) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(e.body()) // a client that has left misses nothing
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
