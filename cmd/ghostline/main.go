// Command ghostline is Ghostline's command line: it logs in, fetches tokens,
// completes at a cursor and explains a proxy's config. root.go lists the commands; each has a file.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Nothing here writes to the standard log but net/http, which quotes there
	// what a server sends out of turn: that may be a completion.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	status := run(ctx, &system{
		stdin:     os.Stdin,
		stdout:    os.Stdout,
		stderr:    os.Stderr,
		getenv:    os.Getenv,
		configDir: os.UserConfigDir,
		browse:    openBrowser,
	}, os.Args[1:])
	stop()
	os.Exit(status)
}
