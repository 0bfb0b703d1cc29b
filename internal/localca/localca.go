// Package localca makes a certificate authority for one machine: what
// `ghostline up`, the demo and the tests use so that TLS is real on loopback.
// It is no CA for a cluster; there, certificates come from outside.
package localca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"time"

	"github.com/ghostline-dev/ghostline/internal/privatefile"
)

const validFor = 90 * 24 * time.Hour

// CA signs server certificates for loopback names. Its key lives in memory
// only, so nobody who finds the files on disk can sign with it later.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// New makes a CA with a fresh key.
func New() (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("local CA key: %w", err)
	}
	template := certTemplate("Ghostline local CA")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("local CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("local CA certificate: %w", err)
	}
	return &CA{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// PEM is the CA's certificate, for those who are to trust it.
func (ca *CA) PEM() []byte { return ca.pem }

// Pool is the CA's certificate as a set of trusted roots.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// Issue signs a certificate for localhost, 127.0.0.1 and ::1 and returns it and
// its key, both in PEM.
func (ca *CA) Issue() (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("local certificate key: %w", err)
	}
	template := certTemplate("localhost")
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("local certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("local certificate key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// ServerTLS is a TLS configuration with a certificate that Issue signed.
func (ca *CA) ServerTLS() (*tls.Config, error) {
	certPEM, keyPEM, err := ca.Issue()
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("local certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// WriteFiles writes ca.pem, tls.crt and tls.key (mode 0600, each replaced as a
// whole) into dir, with a certificate that Issue signed.
func (ca *CA) WriteFiles(dir string) error {
	certPEM, keyPEM, err := ca.Issue()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"ca.pem": ca.pem, "tls.crt": certPEM, "tls.key": keyPEM} {
		if err := privatefile.Write(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

func certTemplate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		// crypto/rand never fails on supported systems (it ends the program).
		panic(err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: []string{"Ghostline"}},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validFor),
	}
}
