// How a program is started that outlives this one, on Windows.
package main

import (
	"os/exec"
	"syscall"
)

const detachedProcess = 0x8 // DETACHED_PROCESS: no console of ours

func inBackground(program *exec.Cmd) {
	program.SysProcAttr = &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP}
}
