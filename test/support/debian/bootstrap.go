// SPDX-License-Identifier: Apache-2.0

// Package debian unpacks Debian's packages into directories that become the "/" of
// hosts and guests.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// Suite is the release that the packages are of.
const Suite = "bookworm"

// bootstrapTimeout has a slow mirror in mind.
const bootstrapTimeout = 15 * time.Minute

// Bootstrap unpacks packages into dir as mmdebstrap(1) does with these options. It
// needs root and the network. An error has what mmdebstrap printed.
func Bootstrap(ctx context.Context, dir string, options ...string) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	args := append([]string{"--mode=root", "--format=directory"}, options...)
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, Suite, dir)...)
	// It removes its own mounts when it is asked to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", errors.Join(err, context.Cause(ctx)), out)
	}
	return nil
}
