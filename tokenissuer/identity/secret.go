package identity

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// maxSecret bounds the length of a secret, in bytes. One may be a JWT.
const maxSecret = 8 << 10

// secretFile is a secret in a file of its own, which may change. The file is read
// whenever the secret is needed: that is before calls that cost a thousand times more,
// and then it is never old. While it cannot be read, the last good secret stays.
type secretFile struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	good   string
	failed bool // as the log has been told
}

// openSecret reads the file for the first time.
func openSecret(path string, log *slog.Logger) (*secretFile, error) {
	secret, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	return &secretFile{path: path, log: log, good: secret}, nil
}

func (s *secretFile) read() string {
	secret, err := readSecret(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.good = secret
	} else if !s.failed {
		s.log.Error("a secret cannot be read; the last good one stays in use", "error", err)
	}
	s.failed = err != nil
	return s.good
}

// readSecret holds that the file has one word. Its errors do not quote the file.
func readSecret(path string) (string, error) {
	// To open a pipe would wait for a writer.
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s must be a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+2))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" || len(secret) > maxSecret || strings.ContainsFunc(secret, func(r rune) bool { return r < '!' || r > '~' }) {
		return "", fmt.Errorf("%s must hold the secret alone: 1 to %d visible ASCII characters", path, maxSecret)
	}
	return secret, nil
}
