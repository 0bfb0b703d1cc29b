package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/test/bench/load"
)

const (
	issuer   = "https://tokens.bench"
	audience = "completions.bench"
	// The models behind the proxy: one is the model server's, one the unit's here.
	modelServed = "model"
	modelUnit   = "unit"
)

// rig is what the competitors stand between.
type rig struct {
	bin    string // folder of the built programs
	dir    string // of files for them
	tokens []string
	trust  *tls.Config

	model                       *process
	modelCleartext, modelSecure string
	unit                        *cancelUnit
}

func startRig(ctx context.Context, bin string) (r *rig, err error) {
	r = &rig{bin: bin}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "ghostline-bench-"); err != nil {
		return nil, err
	}
	certificate, err := r.writeCertificates()
	if err != nil {
		return nil, err
	}
	if r.unit, err = startCancelUnit(certificate); err != nil {
		return nil, err
	}
	model, err := startService(ctx, "model server", filepath.Join(bin, "modelserver"), "-listen-cleartext", "127.0.0.1:0",
		"-listen-tls", "127.0.0.1:0", "-tls-cert", r.file("tls.crt"), "-tls-key", r.file("tls.key"))
	if err != nil {
		return nil, err
	}
	r.model, r.modelCleartext, r.modelSecure = model.process, model.cleartext, model.secure
	return r, r.writeConfig()
}

func (r *rig) file(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) stop() {
	r.model.stop()
	if r.unit != nil {
		r.unit.stop()
	}
	os.RemoveAll(r.dir)
}

// writeCertificates writes a CA and a server's certificate, and returns the latter.
func (r *rig) writeCertificates() (*tls.Config, error) {
	ca, err := localca.New()
	if err != nil {
		return nil, err
	}
	if err := ca.WriteFiles(r.dir); err != nil {
		return nil, err
	}
	r.trust = &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", NextProtos: []string{"h2"}}
	certificate, err1 := os.ReadFile(r.file("tls.crt"))
	key, err2 := os.ReadFile(r.file("tls.key"))
	pair, err3 := tls.LoadX509KeyPair(r.file("tls.crt"), r.file("tls.key"))
	// HAProxy wants both in one file.
	err4 := os.WriteFile(r.file("both.pem"), slices.Concat(certificate, key), 0o600)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, errors.Join(err1, err2, err3, err4)
}

// clientHeader is what the nth client says of itself: each is a user of their own.
func (r *rig) clientHeader(n int) []load.Field {
	return []load.Field{
		{Name: "authorization", Value: "Bearer " + r.tokens[n]},
		{Name: "vscode-sessionid", Value: fmt.Sprintf("session-%d", n)},
		{Name: "vscode-machineid", Value: fmt.Sprintf("machine-%d", n)},
	}
}

// signTokens signs a token for each of n clients.
func (r *rig) signTokens(n int, signer token.Signer) error {
	now := time.Now()
	for i := range n {
		signed, err := signer.Sign(token.Claims{Issuer: issuer, Audience: audience, Subject: fmt.Sprintf("client-%d", i), IssuedAt: now,
			Expires: now.Add(24 * time.Hour), ID: fmt.Sprint(i), ClientID: "bench"})
		if err != nil {
			return err
		}
		r.tokens = append(r.tokens, signed)
	}
	return nil
}

// writeConfig writes the proxy's config and signs the clients' tokens.
func (r *rig) writeConfig() error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if err := r.signTokens(maxConnections, token.Signer{KeyID: token.Thumbprint(public), Key: private}); err != nil {
		return err
	}
	keys, err := json.Marshal(token.NewKeySet(public))
	if err != nil {
		return err
	}
	c := config.Config{
		Region: "bench",
		Tokens: config.Tokens{Issuer: issuer, Audience: audience, KeySet: config.KeySet{File: "jwks.json"}},
		// Few clients ask for what many would.
		Limits: config.Limits{PerSubject: config.SubjectLimits{InFlight: 10_000, RequestsPerSecond: 1e6, Burst: 1e6}},
	}
	for name, addr := range map[string]string{modelServed: r.modelCleartext, modelUnit: r.unit.cleartext} {
		c.Models = append(c.Models, config.Model{Name: name, Variants: []config.Variant{{Name: "only", Weight: 1}}})
		c.Units = append(c.Units, config.Unit{Name: name, Region: "bench", Serves: name + "/only", Provider: config.ProviderOpenAI,
			URL: "http://" + addr + completionsPath, Protocol: config.ProtocolH2C})
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(r.file("jwks.json"), keys, 0o600),
		os.WriteFile(r.file("proxy.json"), data, 0o600),
	)
}
