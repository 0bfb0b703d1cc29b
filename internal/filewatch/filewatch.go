// Package filewatch tells when files may have changed.
package filewatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a directory must be quiet before its change is told:
	// editors and kubelet write in several steps.
	settle = 50 * time.Millisecond
	// settleMost bounds that: a directory that is never quiet must not keep the
	// changes in it from being told.
	settleMost = time.Second
)

// Watch calls changed after anything happened in one of dirs, and every poll
// at the least, until ctx is done. It watches directories, not files, because
// kubelet changes a mounted file by swapping a symbolic link beside it. Where
// notifications cannot be had, it only polls. A directory that was removed, or
// is not there yet, is watched from the first poll that finds it.
//
// changed must find out itself what changed, if anything.
func Watch(ctx context.Context, log *slog.Logger, dirs []string, poll time.Duration, changed func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no file notifications; polling only", "error", err)
		watcher, dirs = &fsnotify.Watcher{}, nil // its channels are nil: silent for ever
	} else {
		defer watcher.Close()
	}
	lost := map[string]bool{}
	add(log, watcher, dirs, lost)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			add(log, watcher, dirs, lost)
		case <-watcher.Errors: // events were lost, so anything may have changed
		case <-watcher.Events:
			quiet(ctx, watcher.Events)
		}
		if ctx.Err() == nil {
			changed()
		}
	}
}

// add watches dirs; those that are watched already cost a system call. lost has
// those that cannot be, so that each is told once.
func add(log *slog.Logger, watcher *fsnotify.Watcher, dirs []string, lost map[string]bool) {
	for _, dir := range dirs {
		err := watcher.Add(dir)
		if err != nil && !lost[dir] {
			log.Warn("no file notifications for a directory; polling it", "directory", dir, "error", err)
		}
		lost[dir] = err != nil
	}
}

// quiet returns when no event came for a while, or too many came for too long.
func quiet(ctx context.Context, events <-chan fsnotify.Event) {
	pause, most := time.NewTimer(settle), time.NewTimer(settleMost)
	defer pause.Stop()
	defer most.Stop()
	for {
		select {
		case <-events:
			pause.Reset(settle)
		case <-pause.C:
			return
		case <-most.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
