package proxy

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// maxFile bounds every file that the config names.
const maxFile = 4 << 20

// inputs reads the files that a snapshot is made of, and remembers all of their
// content in a digest, so that "nothing changed" can be told.
type inputs struct {
	dir         string // what relative names are relative to
	digest      hash.Hash
	last, files map[string][]byte // by path: what was read for the snapshot before, and now
}

func (in *inputs) sum() [sha256.Size]byte { return [sha256.Size]byte(in.digest.Sum(nil)) }

// read returns the content of a file that the config names.
func (in *inputs) read(name string) ([]byte, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.dir, path)
	}
	data, err := readBounded(path)
	if last, ok := in.last[path]; ok && isOutOfFiles(err) {
		// That says nothing of the file. Without this, clients that open too many
		// connections would have every unit with a credential left out.
		data, err = last, nil
	}
	in.add(path, data)
	if err == nil {
		in.files[path] = data
	} else {
		in.digest.Write([]byte("cannot be read")) // which is not the same as empty
	}
	return data, err
}

// isOutOfFiles is true for a file that could not be opened because the process,
// or the system, has too many open.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (in *inputs) add(path string, data []byte) {
	fmt.Fprintf(in.digest, "%q %d ", path, len(data))
	in.digest.Write(data)
}

// readBounded reads a file, but no pipe: to open one waits for a writer, and
// every later load with it, and the end of the process.
func readBounded(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s is a pipe; it must be a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}

// certificates returns the certificates of a PEM file and the file's hash.
func (in *inputs) certificates(name string) (*x509.CertPool, string, error) {
	data, err := in.read(name)
	if err != nil {
		return nil, "", err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, "", fmt.Errorf("%s holds no PEM certificate", name)
	}
	return pool, config.Hash(data), nil
}

// readDenied reads one subject a line.
func readDenied(from *config.DeniedSubjects, in *inputs) (map[string]bool, error) {
	if from == nil {
		return nil, nil
	}
	data, err := in.read(from.File)
	if err != nil {
		return nil, err
	}
	denied := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			denied[line] = true
		}
	}
	return denied, nil
}
