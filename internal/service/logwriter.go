package service

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// maxUnwritten bounds the lines of the log that wait to be written.
	maxUnwritten  = 1024
	lastWriteTime = time.Second
)

// logWriter writes a log in the background: slog holds a lock while it writes, so
// that a pipe that nobody reads would keep every request that logs, and the end of
// the process. While it is stuck, lines are dropped; how many is told after it.
type logWriter struct {
	out     io.Writer
	lines   chan []byte
	dropped atomic.Int64
	stopped chan struct{}
	ended   chan struct{}
}

// startLog begins to write; stop writes what is left, unless that takes too long.
func startLog(out io.Writer) *logWriter {
	l := &logWriter{out: out, lines: make(chan []byte, maxUnwritten), stopped: make(chan struct{}), ended: make(chan struct{})}
	go l.run()
	return l
}

// Write takes one line. It neither waits nor fails.
func (l *logWriter) Write(line []byte) (int, error) {
	select {
	case l.lines <- bytes.Clone(line):
	default:
		l.dropped.Add(1)
	}
	return len(line), nil
}

func (l *logWriter) run() {
	defer close(l.ended)
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		case <-l.stopped:
			for len(l.lines) > 0 {
				l.write(<-l.lines)
			}
			return
		}
	}
}

// write writes a line. Nobody is left to tell of an error.
func (l *logWriter) write(line []byte) {
	_, _ = l.out.Write(line)
	if n := l.dropped.Swap(0); n > 0 {
		_, _ = fmt.Fprintf(l.out, `{"time":%q,"level":"WARN","msg":"lines of this log are dropped: nobody took them","lines":%d}`+"\n",
			time.Now().Format(time.RFC3339Nano), n)
	}
}

func (l *logWriter) stop() {
	close(l.stopped)
	select {
	case <-l.ended:
	case <-time.After(lastWriteTime):
	}
}
