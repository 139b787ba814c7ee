// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// commandTimeout limits every command that is run for its output.
	commandTimeout = 60 * time.Second
	// waitDelay limits the time until the output of an ended command is read, on a busy machine.
	waitDelay = 10 * time.Second
)

// ip runs ip(8) outside the lab's namespaces, which ip enters by itself.
func ip(ctx context.Context, stdin string, args ...string) (string, error) {
	return Output(ctx, nil, stdin, "ip", args...)
}

// Output runs a command and returns its standard output. The error includes its standard error
// and, as *exec.ExitError, its exit code. A nil environment stands for the environment of this
// process.
func Output(ctx context.Context, environment []string, stdin, name string, args ...string) (string, error) {
	return runFrom(ctx, func(start func() error) error { return start() }, environment, stdin, name, args...)
}

// Shell returns bash with a script. When ctx ends, it is killed with everything that it started.
func Shell(ctx context.Context, dir string, environment []string, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, environment, waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	return cmd
}

// runFrom is Output with a function that starts the command.
func runFrom(ctx context.Context, start func(func() error) error, environment []string, stdin, name string,
	args ...string,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay, cmd.Env = waitDelay, environment
	// Its own process group: a Ctrl-C is for the lab, and commands that create or remove
	// parts of it must complete.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := start(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
