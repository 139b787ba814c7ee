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
)

// commandTimeout limits every command that is run for its output.
const commandTimeout = 60 * time.Second

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

// runFrom is Output with a function that starts the command.
func runFrom(ctx context.Context, start func(func() error) error, environment []string, stdin, name string,
	args ...string,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay, cmd.Env = 10*time.Second, environment // on a busy machine, the last output is read late
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
