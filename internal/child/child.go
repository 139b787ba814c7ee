// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// The descriptors of a child's end of the connection: the socket of commands and the
// pipe of messages.
const (
	commandFD = 3
	eventFD   = 4
)

// killTimeout is what the kernel takes to end a process.
const killTimeout = 5 * time.Second

// maxProcs bounds the processors that a child runs on at a time. One answers more
// than 10,000 challenges a second; a flood from outside is not to take the
// others from the control plane.
const maxProcs = 2

// Process is a child that was started, and the connection to it. The child ends
// with either.
type Process struct {
	*protocol.Conn
	*sandbox.Process
}

// Start runs a command of this program, such as "proxy", as a child: without
// capabilities, without environment, and killed by the kernel when this process
// ends. The command takes its end of the connection with [Inherited]. What it writes
// to its standard error comes to output.
func Start(command string, output *Output) (*Process, error) {
	near, far, err := protocol.NewPair()
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", command, err)
	}
	process, err := start(command, far, output)
	for _, file := range far {
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %q: %w", command, err), near.Close())
	}
	return &Process{near, process}, nil
}

func start(command string, far [2]*os.File, output *Output) (*sandbox.Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for its standard error: %w", err)
	}
	// The link leads to the program that runs, also when another has been put in
	// its place.
	cmd := exec.Command("/proc/self/exe", command) //nolint:noctx // it ends with its connection
	cmd.Args[0] = os.Args[0]
	cmd.Env = childEnvironment(command, os.Environ(), runtime.GOMAXPROCS(0))
	cmd.Dir = "/"
	cmd.Stderr = write // never a terminal, nor the journal's stream
	cmd.ExtraFiles = far[:]
	process, err := sandbox.Start(cmd)
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go output.forwardLines(read, process)
	return process, nil
}

// childEnvironment leaves what the Go runtime reads, and bounds its processors and its
// memory. A child has nobody to talk to but its parent.
func childEnvironment(command string, whole []string, processors int) []string {
	memory := ""
	kept := slices.DeleteFunc(slices.Clone(whole), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "GOGC", "GOTRACEBACK", "GODEBUG", "GORACE", "GOCOVERDIR":
			return false
		case memoryLimitVariable:
			memory = value
		}
		return true
	})
	if entry, is := memoryLimitEntry(command, memory); is {
		kept = append(kept, entry)
	}
	return append(kept, fmt.Sprintf("GOMAXPROCS=%d", min(processors, maxProcs)))
}

// KillAndClose ends the child and waits for that, and then closes the connection: nothing
// that the child has done to its end can hold this process up.
func (p *Process) KillAndClose() {
	_ = p.Kill()
	select {
	case <-p.Done():
	case <-time.After(killTimeout):
	}
	_ = p.Close()
}

// InheritedConn takes the connection that a child is started with.
func InheritedConn() (*protocol.Conn, error) {
	domain, err := unix.GetsockoptInt(commandFD, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return nil, fmt.Errorf("descriptor %d is not a socket of the process that starts this command: it is not for the command line", commandFD)
	}
	// The kernel names a process that is started as /proc/self/exe after that.
	_ = os.WriteFile("/proc/self/comm", []byte("http01-proxyd"), 0)
	return protocol.FromFiles([2]*os.File{os.NewFile(commandFD, "commands"), os.NewFile(eventFD, "messages")})
}
