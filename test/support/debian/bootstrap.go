// SPDX-License-Identifier: Apache-2.0

// Package debian unpacks Debian packages into directories that become the root of test
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

// Suite is the Debian release.
const Suite = "bookworm"

// bootstrapTimeout allows for a slow mirror.
const bootstrapTimeout = 15 * time.Minute

// Bootstrap unpacks packages of a release into dir with mmdebstrap(1) and these options. It needs root
// and the network. An error includes the output of mmdebstrap.
func Bootstrap(ctx context.Context, suite, dir string, options ...string) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	args := append([]string{"--mode=root", "--format=directory"}, options...)
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, suite, dir)...)
	// mmdebstrap removes its mounts after SIGTERM.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", errors.Join(err, context.Cause(ctx)), out)
	}
	return nil
}
