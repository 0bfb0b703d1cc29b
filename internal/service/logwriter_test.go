package service

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a pipe that nobody reads until it is let go.
type stuck struct {
	release chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.Buffer.Write(p)
}

// TestLogIsNeverInTheWay: whoever logs does not wait, nor does the end.
func TestLogIsNeverInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		l := startLog(out)
		fmt.Fprintln(l, "line 0")
		synctest.Wait() // it is being written
		const more = 7
		for i := range maxUnwritten + more {
			fmt.Fprintln(l, "line", i+1)
		}
		began := time.Now()
		l.stop()
		if took := time.Since(began); took != lastWriteTime {
			t.Errorf("the end took %s, want %s", took, lastWriteTime)
		}
		close(out.release)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != maxUnwritten+2 || !strings.HasSuffix(lines[1], fmt.Sprintf(`"lines":%d}`, more)) || lines[len(lines)-1] != fmt.Sprint("line ", maxUnwritten) {
			t.Errorf("%d lines, %q and %q", len(lines), lines[1], lines[len(lines)-1])
		}
	})
}

// TestLogIsWhole: what was logged before the end is written.
func TestLogIsWhole(t *testing.T) {
	var out bytes.Buffer
	l := startLog(&out)
	fmt.Fprintln(l, "one")
	fmt.Fprintln(l, "two")
	l.stop()
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("%q is written", got)
	}
}
