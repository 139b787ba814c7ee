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

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/sandbox"
)

// descriptor is where a child finds its end of the connection.
const descriptor = 3

// cores bounds the processors that a child runs on at a time. One answers more
// than 10,000 challenges a second; a flood from outside is not to take the
// others from the control plane.
const cores = 2

// Process is a child that was started, and the connection to it. The child ends
// with either.
type Process struct {
	*control.Conn
	*sandbox.Process
}

// Start runs a command of this program, such as "gate", as a child: without
// capabilities, without environment, and killed by the kernel when this process
// ends. The command takes its end of the connection with [Inherited].
func Start(command string) (*Process, error) {
	near, far, err := control.Pair()
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", command, err)
	}
	// The link leads to the program that runs, also when another has been put in
	// its place.
	cmd := exec.Command("/proc/self/exe", command) //nolint:noctx // it ends with its connection
	cmd.Args[0] = os.Args[0]
	cmd.Env = environment(command, os.Environ(), runtime.GOMAXPROCS(0))
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr // what the runtime has to say when it breaks
	cmd.ExtraFiles = []*os.File{far}
	process, err := sandbox.Start(cmd)
	err = errors.Join(err, far.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %q: %w", command, err), near.Close())
	}
	return &Process{near, process}, nil
}

// environment leaves what the Go runtime reads, and bounds its processors and its
// memory. A child has nobody to talk to but its parent.
func environment(command string, whole []string, processors int) []string {
	memory := ""
	kept := slices.DeleteFunc(slices.Clone(whole), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "GOGC", "GOTRACEBACK", "GODEBUG", "GORACE", "GOCOVERDIR":
			return false
		case memoryVariable:
			memory = value
		}
		return true
	})
	if entry, is := memoryFor(command, memory); is {
		kept = append(kept, entry)
	}
	return append(kept, fmt.Sprintf("GOMAXPROCS=%d", min(processors, cores)))
}

// End closes the connection, upon which the child ends, and waits for that.
func (p *Process) End() {
	_ = p.Close()
	_ = p.Kill()
	<-p.Ended()
}

// Inherited takes the connection that a child is started with.
func Inherited() (*control.Conn, error) {
	domain, err := unix.GetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return nil, fmt.Errorf("descriptor %d is not a socket of the process that starts this command: it is not for the command line", descriptor)
	}
	// The kernel names a process that is started as /proc/self/exe after that.
	_ = os.WriteFile("/proc/self/comm", []byte("http01-proxyd"), 0)
	return control.Take(os.NewFile(descriptor, "control"))
}
