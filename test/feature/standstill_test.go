//go:build unix

package feature

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// process is a proxy in a process of its own, which can be stopped.
type process struct {
	s   *stack
	cmd *exec.Cmd
}

// ownProcess has another proxy serve in the place of the stack's, with the same
// config and files, in a process of its own.
func (s *stack) ownProcess() *process {
	s.t.Helper()
	command := filepath.Join(s.t.TempDir(), "proxy")
	build := exec.CommandContext(s.t.Context(), "go", "build", "-o", command, "./cmd/proxy")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("building the proxy: %v\n%s", err, out)
	}
	s.log = &lockedBuffer{}
	p := &process{s: s, cmd: exec.Command(command, "-config", filepath.Join(s.dir, "config.json"), "-credentials", filepath.Join(s.dir, "credentials"),
		"-listen-cleartext", "127.0.0.1:0", "-listen-admin", "127.0.0.1:0", "-drain-delay", "0s", "-access-log", "")}
	p.cmd.Stderr = s.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may be stopped, and then would not end by itself
		_ = p.cmd.Wait()
	})
	s.eventually("the process serves", func() bool {
		plain, admin := s.serves("cleartext"), s.serves("admin")
		s.plainURL, s.adminURL = "http://"+plain, "http://"+admin
		return plain != "" && admin != "" && s.runsOn()
	})
	return p
}

// serves is the address of a listener, by the log; empty if there is none yet.
func (s *stack) serves(listener string) string {
	for line := range strings.Lines(s.log.String()) {
		var entry struct{ Msg, Listener, Addr string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "serving" && entry.Listener == listener {
			return entry.Addr
		}
	}
	return ""
}

// runsOn says whether the proxy answers, and so has done what was due.
func (s *stack) runsOn() bool {
	resp, err := http.Get(s.adminURL + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// standStill has the process stand still while something happens, and for a time.
func (p *process) standStill(atLeast time.Duration, meanwhile func()) {
	p.s.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.s.t.Fatalf("the process has not stopped: %v, status %x", err, status)
	}
	meanwhile()
	p.s.eventually("the time is over", func() bool { return time.Since(began) > atLeast })
	p.signal(syscall.SIGCONT)
	p.s.eventually("the process runs on", p.s.runsOn)
}

func (p *process) signal(signal syscall.Signal) {
	p.s.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.s.t.Fatal(err)
	}
}

// wantBlameless checks that nothing is held against the unit, once it has nothing to do.
func (s *stack) wantBlameless(unit string) {
	s.t.Helper()
	s.eventually("nothing is in flight", func() bool {
		status := s.status()
		return status.Units[0].InFlight == 0
	})
	if state, _ := s.unitState(unit); state != "active" {
		s.t.Errorf("the unit is %s, want active; the log:\n%s", state, s.log)
	}
	if s.logged("a unit is ejected") > 0 {
		s.t.Errorf("the unit was ejected; the log:\n%s", s.log)
	}
}

// TestCancelsDuringAStandstill: clients, proxy and unit stand still together, as
// when the machine that they share does. When they run again the proxy hears of
// the cancels first, from clients who have waited for longer than ever.
func TestCancelsDuringAStandstill(t *testing.T) {
	s, units := cast(t, setup{}, says(whole("a")))
	p := s.ownProcess()
	longest := time.Duration(0)
	for range suspectAfter {
		began := time.Now()
		s.complete()
		longest = max(longest, time.Since(began))
	}
	units[0].is(http.HandlerFunc(never))
	visits := s.waitAt(units[0], 8, 0)
	p.standStill(longest+100*time.Millisecond, func() {
		for _, visit := range visits {
			visit.leave()
		}
	})
	s.wantBlameless("unit-0")
}

// TestLimitsDuringAStandstill: the time for the first byte passes while the proxy
// stands still. Units have the rest of their time then, and answers that came
// meanwhile are read.
func TestLimitsDuringAStandstill(t *testing.T) {
	const firstByte = 3 * time.Second
	for name, meanwhile := range map[string]bool{"answered meanwhile": true, "answered after it": false} {
		t.Run(name, func(t *testing.T) {
			s, units := cast(t, setup{config: func(c *config.Config) { c.Timeouts.FirstByte = config.Duration(firstByte) }}, says(whole("a")))
			p := s.ownProcess()
			release := make(chan struct{})
			units[0].is(held(release))
			visits := s.waitAt(units[0], 8, 0)
			p.standStill(firstByte+100*time.Millisecond, func() {
				if meanwhile {
					close(release)
				}
			})
			if !meanwhile {
				close(release)
			}
			for _, visit := range visits {
				if end := <-visit.ended; end.err != nil || end.body != whole("held") {
					t.Errorf("got %q, %v; want the whole answer", end.body, end.err)
				}
			}
			s.wantBlameless("unit-0")
		})
	}
}

// TestUnitThatGivesUpAProxy: a unit, or what lies before it, ends what a proxy has
// not read for long.
func TestUnitThatGivesUpAProxy(t *testing.T) {
	s, units := cast(t, setup{}, says(whole("a")))
	p := s.ownProcess()
	tired := make(chan struct{})
	units[0].is(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-tired
		panic(http.ErrAbortHandler)
	}))
	visits := s.waitAt(units[0], 8, 0)
	p.standStill(1500*time.Millisecond, func() { close(tired) })
	for _, visit := range visits {
		<-visit.ended // with 502: nobody else could answer
	}
	s.wantBlameless("unit-0")
}
