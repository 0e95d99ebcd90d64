//go:build unix

// How a program is started that outlives this one, where there are sessions.
package main

import (
	"os/exec"
	"syscall"
)

// inBackground keeps the terminal's Ctrl-C and its end away from the program.
func inBackground(program *exec.Cmd) { program.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
