package main

import (
	"os/exec"
	"runtime"
)

// openBrowser opens a page, whose scheme is checked: it begins with http, so it is no
// flag and no file.
func openBrowser(page string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.Command(command[0], append(command[1:], page)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	// The browser is the user's now, and may outlive this program.
	return cmd.Process.Release()
}
