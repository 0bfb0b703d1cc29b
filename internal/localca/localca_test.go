package localca

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func newCA(t *testing.T) *CA {
	t.Helper()
	ca, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// shake makes a TLS connection to a server of serverTLS and returns how the
// client took it.
func shake(t *testing.T, serverTLS *tls.Config, roots *x509.CertPool, name string) error {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", serverTLS)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.(*tls.Conn).Handshake() // the client says whether it is good
		conn.Close()
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name})
	if err == nil {
		conn.Close()
	}
	listener.Close()
	<-served
	return err
}

func TestServerTLS(t *testing.T) {
	ca := newCA(t)
	config, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		roots *x509.CertPool
		good  bool
	}{
		{"localhost", ca.Pool(), true},
		{"127.0.0.1", ca.Pool(), true},
		{"::1", ca.Pool(), true},
		{"example.com", ca.Pool(), false},
		{"127.0.0.2", ca.Pool(), false},
		{"localhost", newCA(t).Pool(), false}, // another CA of the same name
	} {
		if err := shake(t, config, tc.roots, tc.name); (err == nil) != tc.good {
			t.Errorf("a client of %s: %v", tc.name, err)
		}
	}
}

func TestWriteFiles(t *testing.T) {
	ca, dir := newCA(t), t.TempDir()
	// A key that all could read, as an earlier run or another program left it.
	if err := os.WriteFile(filepath.Join(dir, "tls.key"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := ca.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) || string(pem) != string(ca.PEM()) {
		t.Fatal("ca.pem is not the CA's certificate")
	}
	if err := shake(t, &tls.Config{Certificates: []tls.Certificate{cert}}, roots, "localhost"); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, error %v; want 0600", entry.Name(), info.Mode(), err)
		}
	}
	if len(entries) != 3 {
		t.Errorf("%d files were written; the CA's key must stay in memory", len(entries))
	}
	if err := ca.WriteFiles(filepath.Join(dir, "missing")); err == nil {
		t.Error("files were written into a directory that is not there")
	}
}

func TestCertificates(t *testing.T) {
	ca := newCA(t)
	if !ca.cert.IsCA || !ca.cert.MaxPathLenZero || ca.cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Errorf("the CA's certificate is none of a CA: %+v", ca.cert)
	}
	one, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(one.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if leaf.IsCA || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("a server's certificate may do more than serve: %+v", leaf)
	}
	if life := time.Until(leaf.NotAfter); life < 24*time.Hour || life > 100*24*time.Hour {
		t.Errorf("it lives for %s", life)
	}
	other, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := x509.ParseCertificate(other.Certificates[0].Certificate[0]); err != nil || second.SerialNumber.Cmp(leaf.SerialNumber) == 0 {
		t.Errorf("two certificates have one serial number, error %v", err)
	}
}
