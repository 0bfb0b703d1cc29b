package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	for _, test := range []struct {
		stat        string
		pid, parent int
		ok          bool
	}{
		{"12 (nghttpx) S 7 12 12 0 -1", 12, 7, true},
		{"12 (a) b (c)) S 7 12 12 0 -1", 12, 7, true},
		{"12 (x) S", 0, 0, false},
		{"12 x S 7", 0, 0, false},
		{"", 0, 0, false},
		{"a (x) S 7 1", 0, 7, false},
	} {
		pid, parent, ok := parseStat(test.stat)
		if ok != test.ok || ok && (pid != test.pid || parent != test.parent) {
			t.Errorf("%q: %d, %d, %t; want %d, %d, %t", test.stat, pid, parent, ok, test.pid, test.parent, test.ok)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	before, err := processorTime([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	for spent := before; spent < before+20*time.Millisecond; {
		if spent, err = processorTime([]int{os.Getpid()}); err != nil {
			t.Fatal(err)
		}
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := processorTime([]int{gone.Process.Pid}); err == nil {
		t.Error("a process that is gone has a processor time")
	}
}

// startShell starts a process as the bench does, and waits for its word.
func startShell(t *testing.T, script string) *process {
	t.Helper()
	p, err := start(t.Context(), "shell", "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	err = p.await(t.Context(), func() error {
		if !slices.Contains(p.said.lines(), "ready") {
			return errors.New("not ready")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTree(t *testing.T) {
	p := startShell(t, "sleep 100 & sh -c 'sleep 100 & wait' & echo ready; wait")
	// The inner shell may not have started its own child yet.
	err := p.await(t.Context(), func() error {
		pids, err := p.tree()
		if err == nil && (len(pids) != 4 || !slices.Contains(pids, p.cmd.Process.Pid)) {
			err = errors.New("not all are there")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if resident, err := p.residentMiB(); err != nil || resident <= 0 {
		t.Errorf("%g MiB, %v", resident, err)
	}
	pids, err := p.tree()
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	for _, pid := range pids {
		for deadline := time.Now().Add(10 * time.Second); runs(pid); {
			if time.Now().After(deadline) {
				t.Fatalf("process %d outlived the stop", pid)
			}
		}
	}
}

// runs says whether there is such a process that has not ended. One whose parent is
// gone may stay a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestMeter counts what descendants use, and notices one that it does not know.
func TestMeter(t *testing.T) {
	enough := filepath.Join(t.TempDir(), "enough")
	p := startShell(t, "(until [ -e "+enough+" ]; do :; done; sleep 100; true) & echo ready; wait")
	used, err := p.meter()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err = p.await(t.Context(), func() error {
		pids, err := p.tree()
		if err == nil && len(pids) < 3 {
			err = errors.New("it is still busy")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// It sleeps in a process that began after the meter.
	if took, err := used(); err == nil || !strings.Contains(err.Error(), "others afterwards") || took <= 0 {
		t.Errorf("%s, %v; want a time and that the processes changed", took, err)
	}
}

func TestAProgramThatEnds(t *testing.T) {
	p, err := start(t.Context(), "peer", "/bin/sh", "-c", "echo bad config >&2; exit 1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	err = p.await(t.Context(), func() error { return errors.New("not yet") })
	if err == nil || err.Error() != "peer ended: bad config" {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hangs := startShell(t, "echo ready; sleep 100")
	if err := hangs.await(ctx, func() error { return errors.New("no listener") }); err == nil || !strings.Contains(err.Error(), "shell did not come to serve: no listener") {
		t.Errorf("error %v", err)
	}
}

func TestTail(t *testing.T) {
	var said tail
	for range 1000 {
		_, _ = said.Write([]byte("a line of the log\n"))
	}
	_, _ = said.Write([]byte("the last\n"))
	if lines := said.lines(); lines[len(lines)-1] != "the last" || len(said.String()) > tailBytes {
		t.Errorf("%d bytes that end in %q", len(said.String()), lines[len(lines)-1])
	}
}
