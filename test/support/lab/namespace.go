// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// netnsDir is the directory of ip-netns(8) for named namespaces.
const netnsDir = "/run/netns"

func netnsPath(namespace string) string { return filepath.Join(netnsDir, namespace) }

// addNamespace ignores the end of ctx while ip(8) runs. ip creates the name before the
// namespace, and a name alone breaks later commands.
func addNamespace(ctx context.Context, namespace string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create network namespace %s: %w", namespace, context.Cause(ctx))
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := ip(ctx, "", "netns", "add", namespace); err != nil {
		return fmt.Errorf("create network namespace %s: %w", namespace, err)
	}
	return nil
}

// deleteNamespace removes a namespace's name, also one without a namespace. A missing name
// is no error.
func deleteNamespace(ctx context.Context, namespace string) error {
	if _, err := os.Stat(netnsPath(namespace)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := ip(ctx, "", "netns", "delete", namespace); err != nil {
		return fmt.Errorf("remove network namespace %s: %w", namespace, err)
	}
	return nil
}

// pids returns the processes of a namespace except this one. Only the lab starts processes
// in its namespaces.
func pids(ctx context.Context, namespace string) ([]int, error) {
	if _, err := os.Stat(netnsPath(namespace)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := ip(ctx, "", "netns", "pids", namespace)
	if err != nil {
		return nil, fmt.Errorf("list the processes in %s: %w", namespace, err)
	}
	var list []int
	for _, field := range strings.Fields(out) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("list the processes in %s: %w", namespace, err)
		}
		if pid != os.Getpid() {
			list = append(list, pid)
		}
	}
	return list, nil
}

// killAll ends every process in a namespace and waits for it.
func killAll(ctx context.Context, namespace string) error {
	return Eventually(ctx, "no process left in "+namespace, func(ctx context.Context) error {
		list, err := pids(ctx, namespace)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			return errors.Join(killPIDs(list), fmt.Errorf("still running: %v", list))
		}
		return nil
	})
}

// killPIDs sends SIGKILL to processes. Some may already be gone.
func killPIDs(pids []int) error {
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}
