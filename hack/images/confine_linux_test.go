package main

import (
	"os/exec"
	"syscall"
)

// confine has a command see a folder as all there is, as the images' user.
func confine(command *exec.Cmd, dir string) {
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
}
