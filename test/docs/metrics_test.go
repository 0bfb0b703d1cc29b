package docs_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/controllers"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const metricsPage = "../../docs/metrics.md"

// metric is what a service and the page both say of a metric.
type metric struct {
	Kind   string // Counter, Gauge or Histogram; empty if the service shows none of it yet
	Labels []string
	Help   string
}

// TestMetrics compares the page with the services, which run for it.
func TestMetrics(t *testing.T) {
	written, served := writtenMetrics(t), map[string]metric{}
	dir := t.TempDir()
	describe(t, served, func(ctx context.Context, env service.Env) error { return runProxy(ctx, t, dir, env) })
	describe(t, served, func(ctx context.Context, env service.Env) error { return runIssuer(ctx, t, dir, env) })
	operator := prometheus.NewRegistry()
	controllers.NewMetrics(operator)
	readMetrics(t, served, operator)
	for name, got := range served {
		want, ok := written[name]
		if !ok {
			t.Errorf("%s does not have %s", metricsPage, name)
			continue
		}
		if strings.HasSuffix(name, "_total") != (want.Kind == "Counter") {
			t.Errorf("%s: %s is said to be a %s", metricsPage, name, want.Kind)
		}
		if got.Kind == "" {
			got.Kind = want.Kind
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: %s (-the service +the page)\n%s", metricsPage, name, diff)
		}
	}
	for name := range written {
		if _, ok := served[name]; !ok {
			t.Errorf("%s has %s, which no service does", metricsPage, name)
		}
	}
	if len(served) < 30 {
		t.Errorf("the services have only %d metrics", len(served))
	}
	mentioned(t, written)
}

// metadataMember is of the issuer's RFC 8414 document, and looks like a metric.
const metadataMember = "ghostline_logins"

// mentioned checks the names of metrics in all pages.
func mentioned(t *testing.T, written map[string]metric) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, page := range append(pages, "../../README.md", "../../CHANGELOG.md") {
		for _, name := range regexp.MustCompile(`\bghostline_\w*[a-z0-9]`).FindAllString(read(t, page), -1) {
			if _, ok := written[part.ReplaceAllString(name, "")]; !ok && name != metadataMember {
				t.Errorf("%s names %s, which is no metric", page, name)
			}
		}
	}
}

// writtenMetrics are those of the page: a heading with the name, a line with kind
// and labels, and the meaning.
func writtenMetrics(t *testing.T) map[string]metric {
	t.Helper()
	entry := regexp.MustCompile("(?s)\n### `(\\w+)`\n\n(Counter|Gauge|Histogram)\\. Labels: ([^.]*)\\.[^\n]*\n\n([^\n]*)\n(.*?)\n\\*\\*When it moves:\\*\\* [^\n]")
	written := map[string]metric{}
	for _, match := range entry.FindAllStringSubmatch(read(t, metricsPage), -1) {
		m := metric{Kind: match[2], Help: match[4], Labels: regexp.MustCompile(`\w+`).FindAllString(match[3], -1)}
		if match[3] == "none" {
			m.Labels = nil
		}
		slices.Sort(m.Labels)
		written[match[1]] = m
	}
	if headings := strings.Count(read(t, metricsPage), "\n### `"); headings != len(written) {
		t.Errorf("%s: %d metrics have a heading, %d all that belongs under it", metricsPage, headings, len(written))
	}
	return written
}

// describe runs a service with all its listeners until it serves, and adds what
// it says of its metrics.
func describe(t *testing.T, to map[string]metric, run func(context.Context, service.Env) error) {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	c := service.Command{Name: "service", Run: func(ctx context.Context, env service.Env) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		admin := "http://" + env.Listeners.Admin.Addr().String()
		go func() { ended <- run(ctx, env) }()
		awaitHealth(t, admin)
		readMetrics(t, to, env.Metrics)
		stop()
		return <-ended
	}}
	if code := c.Exec(t.Context(), []string{"-listen-tls", "127.0.0.1:0", "-listen-admin", "127.0.0.1:0",
		"-tls-cert", filepath.Join(dir, "tls.crt"), "-tls-key", filepath.Join(dir, "tls.key"), "-log-level", "error"}, io.Discard, os.Stderr); code != 0 {
		t.Errorf("the service ended with %d", code)
	}
}

func awaitHealth(t *testing.T, admin string) {
	t.Helper()
	// A service that has ended may have left its listener open.
	client := &http.Client{Timeout: 5 * time.Second}
	for deadline := time.Now().Add(20 * time.Second); ; {
		resp, err := client.Get(admin + "/healthz")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Error(err)
			return
		}
	}
}

func readMetrics(t *testing.T, to map[string]metric, registry *prometheus.Registry) {
	t.Helper()
	described := regexp.MustCompile(`^Desc\{fqName: "(ghostline_\w+)", help: "(.*?)"(?:, unit: "\w*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	descriptions := make(chan *prometheus.Desc)
	go func() { defer close(descriptions); registry.Describe(descriptions) }()
	for d := range descriptions {
		if match := described.FindStringSubmatch(d.String()); match != nil {
			labels := regexp.MustCompile(`\w+`).FindAllString(match[4], -1)
			for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(match[3], -1) {
				labels = append(labels, constant[1])
			}
			slices.Sort(labels)
			to[match[1]] = metric{Labels: labels, Help: match[2]}
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Error(err)
	}
	kinds := map[dto.MetricType]string{dto.MetricType_COUNTER: "Counter", dto.MetricType_GAUGE: "Gauge", dto.MetricType_HISTOGRAM: "Histogram"}
	for _, family := range families {
		if m, ok := to[family.GetName()]; ok {
			m.Kind = kinds[family.GetType()]
			to[family.GetName()] = m
		}
	}
}

// runProxy runs a proxy by the page's example.
func runProxy(ctx context.Context, t *testing.T, dir string, env service.Env) error {
	file := filepath.Join(dir, "proxy.yaml")
	example := regexp.MustCompile(`(?m)^    (url|caFile): .*\n    # file: jwks.json\n    caFile: .*$`).ReplaceAllString(block(t, "proxy.yaml"), "    file: jwks.json")
	for name, content := range map[string]string{
		file: example, filepath.Join(dir, "denied.txt"): "", filepath.Join(dir, "units-ca.crt"): "",
		filepath.Join(dir, "jwks.json"): `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return proxy.Run(ctx, proxy.Options{ConfigFile: file, Listeners: env.Listeners, Log: env.Log, Metrics: env.Metrics})
}

// runIssuer runs an issuer by the page's example.
func runIssuer(ctx context.Context, t *testing.T, dir string, env service.Env) error {
	file := filepath.Join(dir, "issuer.yaml")
	for name, content := range map[string]string{file: block(t, "issuer.yaml"), filepath.Join(dir, "identities.yaml"): block(t, "identities.yaml"),
		filepath.Join(dir, "github-secret"): "secret", filepath.Join(dir, "introspection-secret"): "secret",
		filepath.Join(dir, "entitlements.yaml"): block(t, "entitlements.yaml")} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return err
		}
	}
	c, err := tokenissuer.LoadConfig(file)
	if err != nil {
		return err
	}
	return tokenissuer.Run(ctx, tokenissuer.Options{Config: c, Listeners: env.Listeners, Log: env.Log, Metrics: env.Metrics})
}
