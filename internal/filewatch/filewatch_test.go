package filewatch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	// The layout that kubelet makes: file -> ..data/file, ..data -> a directory.
	for _, version := range []string{"v1", "v2"} {
		write(t, filepath.Join(dir, version, "file"), version)
	}
	link(t, "v1", filepath.Join(dir, "..data"))
	link(t, "..data/file", filepath.Join(dir, "file"))

	for name, change := range map[string]func(){
		"a file is written": func() { write(t, filepath.Join(dir, "other"), "x") },
		"a link is swapped": func() {
			link(t, "v2", filepath.Join(dir, "..new"))
			if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			told := watch(t, dir, time.Hour)
			change()
			<-told
		})
	}
	t.Run("nothing happens but the poll", func(t *testing.T) {
		<-watch(t, dir, time.Millisecond)
	})
	t.Run("a directory that does not exist is polled", func(t *testing.T) {
		<-watch(t, filepath.Join(dir, "missing"), time.Millisecond)
	})
}

// TestPermanentWriter has the clock of a bubble: a directory that is never quiet
// is told of within a second all the same.
func TestPermanentWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan fsnotify.Event)
		giveUp := time.After(time.Minute)
		ended := make(chan struct{})
		start := time.Now()
		go func() {
			defer close(ended)
			quiet(t.Context(), events)
		}()
		write := time.NewTicker(settle / 5)
		defer write.Stop()
		for {
			select {
			case <-write.C:
				select {
				case events <- fsnotify.Event{}:
				case <-ended:
				}
			case <-ended:
				if took := time.Since(start); took != settleMost {
					t.Errorf("it took %s, want %s", took, settleMost)
				}
				return
			case <-giveUp:
				t.Fatal("it waits for as long as somebody writes")
			}
		}
	})
}

// TestMadeAgain removes a directory and makes it again: changes in the new one
// are told between two polls.
func TestMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("no notifications here: %v", err)
	}
	defer watcher.Close()
	var log strings.Builder
	logger, lost := slog.New(slog.NewTextHandler(&log, nil)), map[string]bool{}
	again := func() { add(logger, watcher, []string{dir}, lost) }
	told := func() {
		t.Helper()
		write(t, filepath.Join(dir, "file"), "x")
		select {
		case <-watcher.Events:
		case <-time.After(20 * time.Second):
			t.Fatal("a change was not told of")
		}
	}
	again()
	again() // it is still missing
	write(t, filepath.Join(dir, "other"), "x")
	again()
	told()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for len(watcher.WatchList()) > 0 {
		<-watcher.Events
	}
	again()
	write(t, filepath.Join(dir, "other"), "x")
	again()
	told()
	if n := strings.Count(log.String(), "no file notifications"); n != 2 {
		t.Errorf("told %d times that the directory is missing, want once each time:\n%s", n, log.String())
	}
}

// watch returns a channel that is sent to at every change, once Watch is set up.
func watch(t *testing.T, dir string, poll time.Duration) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, slog.New(slog.DiscardHandler), []string{dir}, poll, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	// The watch is set up once it tells of a change of our own.
	for probe := 0; ; probe++ {
		if poll < time.Second {
			return told
		}
		write(t, filepath.Join(dir, "probe"), time.Now().String())
		select {
		case <-told:
			return told
		case <-time.After(10 * settle):
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}
