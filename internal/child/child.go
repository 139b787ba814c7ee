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
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
)

// The commands of this program that run as a child process.
const (
	Proxy    = "proxy"
	Exporter = "exporter"
	Prober   = "prober"
)

// The inherited descriptors of the child's end of the connection.
const (
	commandFD = 3
	eventFD   = 4
)

// killTimeout bounds the wait for the end of a killed process.
const killTimeout = 5 * time.Second

// maxProcs bounds the event loops of the proxy. One processor answers more than 10,000
// challenges a second. A flood from outside must leave the others to the control plane. The
// rest of the proxy process uses one more. All other processes use one: each further processor
// costs memory, and a thread that looks for work when a request arrives.
const maxProcs = 2

// availableProcessors is GOMAXPROCS at the start, before the controller limits itself to one.
var availableProcessors = runtime.GOMAXPROCS(0) //nolint:gochecknoglobals // see above

// Process is a child process and the parent's end of the connection to it. When either
// ends, so does the other.
type Process struct {
	*wire.Parent
	*sandbox.Process
}

// Start runs a command of this program, such as [Proxy], as a child process without
// capabilities. Its environment contains only variables of the Go runtime. The kernel
// kills the child when this process ends. The command opens its end of the connection
// with [Connect]. output receives its standard error.
func Start(command string, output *Output) (*Process, error) {
	parent, files, err := wire.NewPair()
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", command, err)
	}
	process, err := start(command, files, output)
	for _, file := range files {
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %q: %w", command, err), parent.Close())
	}
	return &Process{parent, process}, nil
}

func start(command string, files [2]*os.File, output *Output) (*sandbox.Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create a pipe for its standard error: %w", err)
	}
	// The link leads to the running program, also after its file was replaced.
	cmd := exec.Command("/proc/self/exe", command) //nolint:noctx // the child ends with its connection
	cmd.Args[0] = os.Args[0]
	cmd.Env = childEnvironment(command, os.Environ(), totalMemory, availableProcessors)
	cmd.Dir = "/"
	cmd.Stderr = write // never a terminal, and never the journal's stream
	cmd.ExtraFiles = files[:]
	process, err := sandbox.Start(cmd)
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go output.forwardLines(read, process)
	return process, nil
}

// childEnvironment returns the variables that the Go runtime reads, with limits for the
// child's processors and memory.
func childEnvironment(command string, environment []string, totalMemory int64, processors int) []string {
	kept := slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains([]string{"GOGC", "GOTRACEBACK", "GODEBUG", "GORACE", "GOCOVERDIR"}, name)
	})
	if limit, limited := memoryLimit(command, totalMemory); limited {
		kept = append(kept, fmt.Sprintf("GOMEMLIMIT=%dMiB", limit>>20))
	}
	if command != Proxy {
		processors = 1
	}
	return append(kept, fmt.Sprintf("GOMAXPROCS=%d", min(processors, maxProcs)))
}

// KillAndClose kills the child, waits for its end, and then closes the connection:
// nothing that the child did to its end can block this process.
func (p *Process) KillAndClose() {
	_ = p.Kill()
	select {
	case <-p.Done():
	case <-time.After(killTimeout):
	}
	_ = p.Close()
}

// Connect opens the child's end of the connection, in the child process.
func Connect() (*wire.Child, error) {
	domain, err := unix.GetsockoptInt(commandFD, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return nil, fmt.Errorf("descriptor %d is not a socket", commandFD)
	}
	// The kernel named this process "exe", after /proc/self/exe.
	_ = os.WriteFile("/proc/self/comm", []byte("http01-proxyd"), 0)
	return wire.NewChild([2]*os.File{os.NewFile(commandFD, "commands"), os.NewFile(eventFD, "events")})
}
