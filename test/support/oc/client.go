// SPDX-License-Identifier: Apache-2.0

// Commands of a shell that call back into the test. They also pass commands to the real kubectl, which
// reaches its API server only from inside the lab.

package oc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const socketVariable = "HTTP01_OC_SOCKET"

// Handler runs one command that a shell called by name.
type Handler func(ctx context.Context, dir string, args ...string) (string, error)

type call struct {
	Name string
	Dir  string
	Args []string
}

type answer struct {
	Out  string
	Err  string
	Code int
}

// Commands puts commands into a directory for a shell's PATH. A shell that runs one calls
// the handler in this process.
type Commands struct {
	dir      string
	handlers map[string]Handler
	listener *net.UnixListener
	serving  sync.WaitGroup
}

// NewCommands creates the commands in a directory. Each is a link to this program, whose
// main or TestMain must call Client first.
func NewCommands(dir string, handlers map[string]Handler) (*Commands, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	for name := range handlers {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("make the command: %w", err)
		}
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "socket")})
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	c := &Commands{dir: dir, handlers: handlers, listener: listener}
	c.serving.Go(c.serve)
	return c, nil
}

// Environment returns variables to add to a shell's environment.
func (c *Commands) Environment() []string {
	return []string{
		"PATH=" + c.dir + ":" + os.Getenv("PATH"),
		socketVariable + "=" + filepath.Join(c.dir, "socket"),
	}
}

// Close stops serving commands after running ones ended.
func (c *Commands) Close() error {
	err := c.listener.Close()
	c.serving.Wait()
	return err
}

func (c *Commands) serve() {
	for {
		conn, err := c.listener.AcceptUnix()
		if err != nil {
			return // closed
		}
		c.serving.Go(func() { c.serveOne(conn) })
	}
}

func (c *Commands) serveOne(conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	var request call
	if err := json.NewDecoder(conn).Decode(&request); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A disconnected client cancels its command.
	go func() {
		_, _ = io.Copy(io.Discard, conn) // the decoder may leave the line break
		cancel()
	}()
	out, err := c.handlers[request.Name](ctx, request.Dir, request.Args...)
	result := answer{Out: out}
	if err != nil {
		result.Err, result.Code = err.Error(), 1
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			result.Code = exit.ExitCode()
		}
	}
	_ = json.NewEncoder(conn).Encode(result)
}

// Client is the other side. When the program was called by the name of a command, it
// forwards the call and exits.
func Client() {
	socket, name := os.Getenv(socketVariable), filepath.Base(os.Args[0])
	if socket == "" {
		return
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(socket), name)); err != nil {
		return // the name of another program
	}
	runPlugin(name, os.Args[1:])
	result, err := callHandler(socket, call{Name: name, Args: slices.Clone(os.Args[1:])})
	if err != nil {
		result = answer{Err: err.Error(), Code: 1}
	}
	fmt.Fprint(os.Stdout, result.Out)
	if result.Err != "" {
		fmt.Fprintln(os.Stderr, result.Err)
	}
	os.Exit(result.Code)
}

// runPlugin replaces this process with the plugin of a verb, if there is one in PATH, as oc
// does (kubectl's pkg/cmd/cmd.go, HandlePluginCommand).
func runPlugin(name string, args []string) {
	if len(args) == 0 {
		return
	}
	path, err := exec.LookPath(name + "-" + args[0])
	if err != nil {
		return
	}
	err = unix.Exec(path, append([]string{path}, args[1:]...), os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func callHandler(socket string, c call) (result answer, err error) {
	if c.Dir, err = os.Getwd(); err != nil {
		return result, fmt.Errorf("find the directory: %w", err)
	}
	conn, err := net.Dial("unix", socket) //nolint:noctx,gosec // this very machine; the test that started us set it
	if err != nil {
		return result, fmt.Errorf("connect to the test: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(c); err != nil {
		return result, fmt.Errorf("send the call to the test: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&result); err != nil {
		return result, fmt.Errorf("read the result of the test: %w", err)
	}
	return result, nil
}
