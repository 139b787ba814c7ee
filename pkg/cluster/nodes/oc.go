// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// OC runs oc with a kubeconfig. The zero value uses the defaults of oc.
type OC struct {
	Kubeconfig, Context string
}

// Limits of the output, far above real sizes.
const (
	maxList     = 64 << 20
	maxMessages = 64 << 10
)

// stopTimeout is the time in which oc must remove a debug pod after an interrupt.
const stopTimeout = 10 * time.Second

// call is the result of one call of oc.
type call struct {
	out, messages []byte // of standard output and standard error
	err           error
	timeout       time.Duration // if it is the reason of err
	limit         int           // of standard output, in bytes
	tooLong       bool          // the output was longer than its limit
}

// run runs a verb of oc. Flags and arguments follow the flags of the connection.
func (o OC) run(ctx context.Context, timeout time.Duration, limit int, verb string, args ...string) call {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return o.runUntil(bounded, timeout, nil, io.Discard, limit, verb, args...)
}

// runUntil runs a verb of oc until ctx ends. If the cause is DeadlineExceeded, the timeout was
// the reason. A copy of standard output is written to copied.
func (o OC) runUntil(
	ctx context.Context, timeout time.Duration, stdin *os.File, copied io.Writer, limit int, verb string, args ...string,
) call {
	program, err := exec.LookPath("oc")
	if err != nil {
		return call{err: fmt.Errorf("cannot find oc: %w: install the OpenShift CLI, and add its folder to PATH", err)}
	}
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	out, messages := limitedBuffer{limit: limit, exceeded: cancel}, limitedBuffer{limit: maxMessages}
	cmd := exec.CommandContext(bounded, program, append(o.connection(verb), args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, copied), &messages
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.WaitDelay = stopTimeout
	cmd.Cancel = func() error {
		if runtime.GOOS == "windows" { // without interrupts
			return cmd.Process.Kill()
		}
		return cmd.Process.Signal(os.Interrupt) // oc then removes its debug pod
	}
	err = cmd.Run()
	c := call{out: out.kept.Bytes(), messages: messages.kept.Bytes(), err: err, limit: limit, tooLong: out.full}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) && !c.tooLong {
		c.timeout = timeout
	}
	return c
}

func (o OC) connection(verb string) []string {
	args := []string{verb}
	if o.Kubeconfig != "" {
		args = append(args, "--kubeconfig="+o.Kubeconfig)
	}
	if o.Context != "" {
		args = append(args, "--context="+o.Context)
	}
	return args
}

// limitedBuffer drops what is beyond the limit. It does not embed the buffer, because ReadFrom
// would bypass the limit.
type limitedBuffer struct {
	kept     bytes.Buffer
	limit    int
	exceeded func() // called at the limit; may be nil
	full     bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.kept.Len()
	if len(p) <= room {
		return b.kept.Write(p)
	}
	b.kept.Write(p[:room])
	b.full = true
	if b.exceeded != nil {
		b.exceeded()
	}
	return len(p), nil
}
