// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
)

const socketVariable = "HTTP01_OC_SOCKET"

// Handler runs one command that a shell has called by its name.
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

// Commands puts commands into a directory for a shell's PATH. A shell that
// calls one of them calls the handler in this process.
type Commands struct {
	dir      string
	handlers map[string]Handler
	listener *net.UnixListener
	serving  sync.WaitGroup
}

// NewCommands makes the directory's commands. Each is a link to this program,
// whose main or TestMain has to call Client first of all.
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

// Environment is what a shell needs beside its own environment.
func (c *Commands) Environment() []string {
	return []string{
		"PATH=" + c.dir + ":" + os.Getenv("PATH"),
		socketVariable + "=" + filepath.Join(c.dir, "socket"),
	}
}

// Close ends the serving of commands, once those that run have ended.
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
	var asked call
	if err := json.NewDecoder(conn).Decode(&asked); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A client that is gone asks for nothing any more.
	go func() {
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	out, err := c.handlers[asked.Name](ctx, asked.Dir, asked.Args...)
	said := answer{Out: out}
	if err != nil {
		said.Err, said.Code = err.Error(), 1
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			said.Code = exit.ExitCode()
		}
	}
	_ = json.NewEncoder(conn).Encode(said)
}

// Client is the other end: when this program was called by the name of one of
// the commands, it passes the call on and ends the process.
func Client() {
	socket, name := os.Getenv(socketVariable), filepath.Base(os.Args[0])
	if socket == "" {
		return
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(socket), name)); err != nil {
		return // some other program's name
	}
	said, err := callHandler(socket, call{Name: name, Args: slices.Clone(os.Args[1:])})
	if err != nil {
		said = answer{Err: err.Error(), Code: 1}
	}
	fmt.Fprint(os.Stdout, said.Out)
	if said.Err != "" {
		fmt.Fprintln(os.Stderr, said.Err)
	}
	os.Exit(said.Code)
}

func callHandler(socket string, c call) (said answer, err error) {
	if c.Dir, err = os.Getwd(); err != nil {
		return said, fmt.Errorf("find the directory: %w", err)
	}
	conn, err := net.Dial("unix", socket) //nolint:noctx,gosec // this very machine; the test that started us has set it
	if err != nil {
		return said, fmt.Errorf("reach the test: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(c); err != nil {
		return said, fmt.Errorf("ask the test: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&said); err != nil {
		return said, fmt.Errorf("hear the test: %w", err)
	}
	return said, nil
}
