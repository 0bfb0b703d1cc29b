package proxy

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// benchProxy is a proxy with its config loaded, and a request that it takes, whose
// body is yet to be set.
func benchProxy(b *testing.B) (*proxy, *http.Request) {
	b.Helper()
	dir := b.TempDir()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	writeJSONFile(b, filepath.Join(dir, "keys.json"), token.NewKeySet(public))
	writeJSONFile(b, filepath.Join(dir, "config.json"), config.Config{
		Region: "here", Tokens: config.Tokens{Issuer: "i", Audience: "a", KeySet: config.KeySet{File: "keys.json"}},
		Models: []config.Model{{Name: "ghost-code", Variants: []config.Variant{{Name: "stable", Weight: 95}, {Name: "next", Weight: 5}}}},
		Units: []config.Unit{
			{Name: "u-1", Region: "here", Serves: "ghost-code/stable", Provider: config.ProviderOpenAI, URL: "http://127.0.0.1:9/v1/completions"},
			{Name: "u-2", Region: "here", Serves: "ghost-code/next", Provider: config.ProviderOpenAI, URL: "http://127.0.0.1:9/v1/completions"},
		},
		Limits: config.Limits{PerSubject: config.SubjectLimits{InFlight: 1e6, RequestsPerSecond: 1e9, Burst: 1e9}},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	p, err := start(b.Context(), Options{ConfigFile: filepath.Join(dir, "config.json"), Listeners: httpserver.Listeners{Cleartext: listener}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.loader.close)
	now := time.Now()
	raw, err := token.Signer{KeyID: token.Thumbprint(public), Key: private}.Sign(token.Claims{
		Issuer: "i", Audience: "a", Subject: "u-1", IssuedAt: now, Expires: now.Add(time.Hour), ID: "1", ClientID: "c",
	})
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/completions", nil)
	r.Header.Set("Authorization", "Bearer "+raw)
	r.Header.Set("Editor-Plugin-Version", "copilot/1.300.0")
	return p, r
}

func writeJSONFile(b *testing.B, file string, value any) {
	b.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.Fatal(err)
	}
}

// bodyOf is a request of about so many bytes.
func bodyOf(size int) []byte {
	return []byte(`{"model":"ghost-code","prompt":"` + strings.Repeat(`func f() {\n\treturn 1\n}\n`, size/24) +
		`","suffix":"}","max_tokens":500,"temperature":0.1,"n":1,"stop":["\n"],"stream":true}`)
}

// benchSizes runs a benchmark with small and large bodies.
func benchSizes(b *testing.B, run func(b *testing.B, body []byte)) {
	for name, size := range map[string]int{"4KiB": 4 << 10, "64KiB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			body := bodyOf(size)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			run(b, body)
		})
	}
}

// BenchmarkStages is all that comes before a unit is picked, and the record.
func BenchmarkStages(b *testing.B) {
	p, r := benchProxy(b)
	w := httptest.NewRecorder()
	benchSizes(b, func(b *testing.B, body []byte) {
		src := bytes.NewReader(nil)
		r.Body, r.ContentLength = io.NopCloser(src), int64(len(body))
		for b.Loop() {
			src.Reset(body)
			x := p.begin(w, r, openAIForm{}, "")
			for _, stage := range p.stages {
				if err := stage(x); err != nil {
					b.Fatal(err)
				}
			}
			p.record(x, nil)
		}
	})
}

// BenchmarkPickUnit picks among the units of two regions.
func BenchmarkPickUnit(b *testing.B) {
	var units []config.Unit
	for _, region := range []string{"here", "near"} {
		for _, name := range []string{"1", "2", "3", "4"} {
			units = append(units, config.Unit{Name: region + name, Region: region, Serves: "m/stable", Capacity: config.Capacity{InFlight: 100}})
		}
	}
	wanted := testUnits(units...).variant("stable")
	var p proxy
	b.ReportAllocs()
	for b.Loop() {
		x := &exchange{wanted: wanted}
		if err := p.pickUnit(x); err != nil {
			b.Fatal(err)
		}
		x.leaveUnit()
	}
}

// BenchmarkPrepare makes a client's body a unit's.
func BenchmarkPrepare(b *testing.B) {
	p, r := benchProxy(b)
	s := p.loader.current.Load()
	benchSizes(b, func(b *testing.B, body []byte) {
		x := p.begin(httptest.NewRecorder(), r, openAIForm{}, "")
		x.body, x.ask.stream, x.unit, x.variant = body, true, s.units[0], s.variants[0]
		for b.Loop() {
			if err := p.prepare(x); err != nil {
				b.Fatal(err)
			}
		}
	})
}
