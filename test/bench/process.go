package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program that the bench started.
type process struct {
	name string
	cmd  *exec.Cmd
	said *tail
	// ended is closed when the program has ended, for whatever reason.
	ended chan struct{}
}

// start starts a program, which is killed if the bench ends first.
func start(ctx context.Context, name, program string, args ...string) (*process, error) {
	p := &process{name: name, said: &tail{}, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // it is killed at the end; if it ends before, its words tell more
	}()
	return p, nil
}

// stop kills the program and its children and waits for it.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.ended
}

const (
	startWithin = 10 * time.Second
	startPoll   = 10 * time.Millisecond
)

// await waits until ready returns nil, while the program runs.
func (p *process) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", p.name, p.said)
		case <-ctx.Done():
			return fmt.Errorf("%s did not come to serve: %w: %s", p.name, err, p.said)
		case <-time.After(startPoll):
		}
	}
}

// tree are the ids of the process and its descendants.
func (p *process) tree() ([]int, error) {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		if pid, parent, ok := parseStat(string(stat)); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	pids := []int{p.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	slices.Sort(pids)
	return pids, nil
}

// parseStat reads a process's id and its parent's from /proc/PID/stat.
func parseStat(stat string) (pid, parent int, ok bool) {
	// The second field is the name in parentheses, which may hold anything.
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return 0, 0, false
	}
	rest := strings.Fields(stat[end+1:])
	if len(rest) < 2 {
		return 0, 0, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(stat[:open]))
	parent, err2 := strconv.Atoi(rest[1])
	return pid, parent, err1 == nil && err2 == nil
}

// processorTime is what the processes have used so far, user and system, of all
// threads, those that have ended too. It is the kernel's own sum in nanoseconds,
// where /proc/PID/stat rounds it to 10 ms.
func processorTime(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		// The clock of a process, as clock_getcpuclockid(3) makes its id: the kernel's
		// MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED).
		const cpuclockSched = 2
		var now unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|cpuclockSched), &now); err != nil {
			return 0, fmt.Errorf("processor clock of process %d: %w", pid, err)
		}
		sum += time.Duration(now.Nano())
	}
	return sum, nil
}

// meter reads what a process and its descendants use between now and its result's
// call.
func (p *process) meter() (func() (time.Duration, error), error) {
	pids, err := p.tree()
	if err != nil {
		return nil, err
	}
	before, err := processorTime(pids)
	if err != nil {
		return nil, err
	}
	return func() (time.Duration, error) {
		after, err := processorTime(pids)
		if err != nil {
			return 0, err
		}
		now, err := p.tree()
		if err == nil && !slices.Equal(now, pids) {
			err = errors.New("its processes were others afterwards")
		}
		return after - before, err
	}, nil
}

// residentMiB is the memory of the process and its descendants.
func (p *process) residentMiB() (float64, error) {
	pids, err := p.tree()
	if err != nil {
		return 0, err
	}
	var pages int
	for _, pid := range pids {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(strings.Fields(string(statm))[1])
		if err != nil {
			return 0, err
		}
		pages += n
	}
	return float64(pages*os.Getpagesize()) / (1 << 20), nil
}

// tail keeps the end of what a program says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// lines are the whole lines of what it keeps.
func (t *tail) lines() []string { return strings.Split(t.String(), "\n") }
