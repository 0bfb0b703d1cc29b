package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os/exec"
	"strconv"
	"testing"
)

// languageServer is a program that speaks the Language Server Protocol on its standard
// input and output, with one request at a time.
type languageServer struct {
	t     *testing.T
	in    io.Writer
	out   *bufio.Reader
	calls int
}

// message is one of JSON-RPC: a request, a notification or an answer.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// startLanguageServer runs cmd for the length of the test.
func startLanguageServer(t *testing.T, cmd *exec.Cmd) *languageServer {
	t.Helper()
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		check(t, cmd.Process.Kill())
		_ = cmd.Wait() // ended by us
	})
	return &languageServer{t: t, in: in, out: bufio.NewReader(out)}
}

// call sends a request and returns its result.
func (l *languageServer) call(method string, params any) json.RawMessage {
	l.t.Helper()
	id := l.begin(method, params)
	return l.result(id)
}

// begin sends a request and does not wait for its result.
func (l *languageServer) begin(method string, params any) (id string) {
	l.t.Helper()
	l.calls++
	id = strconv.Itoa(l.calls)
	l.send(message{Version: "2.0", ID: json.RawMessage(id), Method: method, Params: params})
	return id
}

// result waits for the result of a request. What the server asks meanwhile is answered
// with null.
func (l *languageServer) result(id string) json.RawMessage {
	l.t.Helper()
	for {
		m := l.receive()
		switch {
		case m.Method != "" && m.ID != nil:
			l.send(message{Version: "2.0", ID: m.ID, Result: json.RawMessage("null")})
		case m.Method == "" && string(m.ID) == id:
			if m.Error != nil {
				l.t.Fatalf("request %s: %s", id, m.Error)
			}
			return m.Result
		}
	}
}

// notify sends a notification.
func (l *languageServer) notify(method string, params any) {
	l.t.Helper()
	l.send(message{Version: "2.0", Method: method, Params: params})
}

func (l *languageServer) send(m message) {
	l.t.Helper()
	data, err := json.Marshal(m)
	check(l.t, err)
	_, err = fmt.Fprintf(l.in, "Content-Length: %d\r\n\r\n%s", len(data), data)
	check(l.t, err)
}

func (l *languageServer) receive() (m message) {
	l.t.Helper()
	header, err := textproto.NewReader(l.out).ReadMIMEHeader()
	check(l.t, err)
	length, err := strconv.Atoi(header.Get("Content-Length"))
	check(l.t, err)
	data := make([]byte, length)
	_, err = io.ReadFull(l.out, data)
	check(l.t, err)
	check(l.t, json.Unmarshal(data, &m))
	return m
}
