package interop

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/test/interop/tinymodel"
	"github.com/tidwall/gjson"
)

// The key of an engine that wants one, and the file that the proxy has it from.
const engineKey, engineCredential = "engine-key-51", "engine"

// engine is a llama-server that runs for the length of a test. Its own metrics say
// what it does; a cancel that they do not show has not arrived.
type engine struct {
	t   *testing.T
	url string
}

// startEngine runs llama.cpp's server on a model that is trained on this package.
func startEngine(t *testing.T, flags ...string) *engine {
	t.Helper()
	program := installed(t, engineVariable)
	text, err := os.ReadFile("harness_test.go")
	check(t, err)
	model := filepath.Join(t.TempDir(), "tiny.gguf")
	check(t, tinymodel.Write(model, text))

	listener := listen(t)
	address := listener.Addr().String()
	port := address[strings.LastIndexByte(address, ':')+1:]
	check(t, listener.Close()) // it cannot be told to take an open one
	log, err := os.Create(filepath.Join(t.TempDir(), "engine.log"))
	check(t, err)
	t.Cleanup(func() { log.Close() })
	args := append([]string{"--model", model, "--host", "127.0.0.1", "--port", port, "--metrics", "--slots", "--no-webui", "--threads", "1"}, flags...)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	check(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		check(t, cmd.Process.Kill())
		<-ended
	})
	e := &engine{t: t, url: "http://" + address}
	eventually(t, "the engine is up", func() bool {
		select {
		case err := <-ended:
			ended <- err
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("the engine ended: %v\n%s", err, said)
		default:
		}
		resp, err := http.Get(e.url + "/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return e
}

// unit has the engine serve the stack's model, with its API at this path.
func (e *engine) unit(api, path string) func(*config.Config) {
	return func(c *config.Config) {
		u := &c.Units[0]
		u.Provider, u.API, u.URL, u.Protocol, u.TLS = config.ProviderLlamaCpp, api, e.url+path, config.ProtocolHTTP1, nil
		if api == config.APICompletions {
			u.FillInTheMiddle = &config.FillInTheMiddle{Template: "Qwen"}
		}
	}
}

// infill is the unit's usual form.
func (e *engine) infill() func(*config.Config) { return e.unit(config.APIInfill, "/infill") }

// What the engine says of itself.

func (e *engine) processing() float64 { return e.metric("requests_processing") }
func (e *engine) deferred() float64   { return e.metric("requests_deferred") }

func (e *engine) metric(name string) float64 {
	e.t.Helper()
	return metric(e.t, e.url, "llamacpp:"+name)
}

// ask asks the engine itself.
func (e *engine) ask(path, body string) gjson.Result {
	e.t.Helper()
	resp, err := http.Post(e.url+path, "application/json", strings.NewReader(body))
	check(e.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check(e.t, err)
	if resp.StatusCode != http.StatusOK {
		e.t.Fatalf("the engine says %d %s", resp.StatusCode, data)
	}
	return gjson.ParseBytes(data)
}

// sample reads a line in Prometheus' text format, if it is of the metric and has the labels.
func sample(line, name string, labels []string) (float64, bool) {
	series, value, found := strings.Cut(strings.TrimSpace(line), " ")
	if !found || series != name && !strings.HasPrefix(series, name+"{") {
		return 0, false
	}
	for _, label := range labels {
		if !strings.Contains(series, label) {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil
}
