package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The user and the group that programs run as, by number: Kubernetes must see without
// looking into the image that it is not root.
const (
	nonRoot = "65532:65532"
	passwd  = "root:x:0:0:root:/:/nonexistent\nnonroot:x:65532:65532:nonroot:/:/nonexistent\n"
	group   = "root:x:0:\nnonroot:x:65532:\n"
)

// entry is a file or a folder of an image's root file system; folders end with a slash.
type entry struct {
	path    string
	mode    int64
	content []byte
}

// rootfs is all that is in a program's image. There is no /tmp, no shell and nothing
// that its user could write to.
func rootfs(name string, program []byte) []entry {
	return []entry{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, content: []byte(group)},
		{path: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		// Where Go looks first; a ConfigMap mounted over it, or SSL_CERT_FILE, replaces it.
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
		{path: name, mode: 0o755, content: program},
	}
}

// authorities are the certificate authorities that Mozilla trusts, of the pinned
// version of a Go module, so that an image does not depend on the machine that built
// it. Those that are trusted only for some certificates are left out: a PEM file cannot
// say for which.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return all.Bytes()
}

// tarOf packs entries. All belong to root and are as old as the source.
func tarOf(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.path, Mode: e.mode, Size: int64(len(e.content)), ModTime: at, Format: tar.FormatPAX}
		if e.isFolder() {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (e *entry) isFolder() bool { return e.path[len(e.path)-1] == '/' }

// writeRootfs writes a program's root file system into a folder.
func (b *builder) writeRootfs(ctx context.Context, p program, dir string) error {
	program, err := build(ctx, b.module, p.name, b.platforms[0])
	if err != nil {
		return err
	}
	for _, e := range rootfs(p.name, program.content) {
		path := filepath.Join(dir, filepath.FromSlash(e.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if e.isFolder() {
			continue // it holds something, so it is made with that
		}
		if err := os.WriteFile(path, e.content, os.FileMode(e.mode)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(b.log, dir, program.version)
	return err
}
