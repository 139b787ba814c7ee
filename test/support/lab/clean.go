// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// baseDir contains one directory per lab. Like the namespaces it does not persist over a
	// reboot.
	baseDir = "/run/http01-lab"
	// prefix begins the names of a lab's namespaces; the process ID of its creator and a
	// number follow.
	prefix   = "h01lab-"
	lockName = "lock"
)

// claim creates and locks the directory of a new lab. The kernel releases the lock with
// this process. Clean therefore detects a crashed lab independently of process IDs.
func claim() (id, dir string, lock *os.File, err error) {
	// Clean must not run before the directory is locked.
	base, err := lockBase()
	if err != nil {
		return "", "", nil, err
	}
	defer func() { _ = base.Close() }()
	dir, err = os.MkdirTemp(baseDir, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return "", "", nil, fmt.Errorf("create the lab's directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockName), nil, 0o600); err != nil {
		return "", "", nil, fmt.Errorf("create the lab's lock: %w", err)
	}
	lock, err = lockFile(filepath.Join(dir, lockName), unix.LOCK_EX)
	return filepath.Base(dir), dir, lock, err
}

// lockBase prevents that other labs are created or cleaned until the file is closed.
func lockBase() (*os.File, error) {
	if err := os.MkdirAll(baseDir, 0o750); err != nil {
		return nil, fmt.Errorf("create the directory of labs: %w", err)
	}
	// A program that drops root, such as squid, must be able to reach the lab's directory,
	// whose mode is set separately.
	if err := os.Chmod(baseDir, 0o711); err != nil { //nolint:gosec // only to pass through
		return nil, fmt.Errorf("open the directory of labs for programs: %w", err)
	}
	return lockFile(baseDir, unix.LOCK_EX)
}

// Clean removes the leftovers of labs whose process ended, and returns their names. It does not
// change running labs.
func Clean(ctx context.Context) ([]string, error) {
	base, err := lockBase()
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	ids, err := listLabs()
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var removed []string
	for _, id := range ids {
		stale, err := cleanOne(ctx, id)
		if err != nil {
			return removed, fmt.Errorf("remove lab %s: %w", id, err)
		}
		if stale {
			removed = append(removed, id)
		}
	}
	return removed, nil
}

// listLabs returns the labs with a directory or a named namespace. The directory of a running
// lab always exists.
func listLabs() ([]string, error) {
	var ids []string
	for _, dir := range []string{netnsDir, baseDir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if id := labID.FindString(e.Name()); id != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// labID matches the lab's name in a file name.
var labID = regexp.MustCompile("^" + prefix + `[0-9]+-[0-9]+`)

// cleanOne removes one lab unless its process is running.
func cleanOne(ctx context.Context, id string) (bool, error) {
	dir := filepath.Join(baseDir, id)
	lock, err := lockFile(filepath.Join(dir, lockName), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case err == nil:
		defer func() { _ = lock.Close() }()
	}
	if err := removeNamespaces(ctx, id); err != nil {
		return false, err
	}
	return true, os.RemoveAll(dir)
}

// removeNamespaces ends every process in a lab's namespaces and removes the namespaces and
// squid's shared memory. It continues after errors.
func removeNamespaces(ctx context.Context, id string) error {
	var errs []error
	for _, node := range allParts().nodeNames() {
		namespace := namespaceOf(id, node)
		err := killAll(ctx, namespace)
		if err == nil {
			err = deleteNamespace(ctx, namespace)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, removeSharedMemory(id))...)
}

func namespaceOf(id, node string) string { return id + "-" + node }

// lockFile opens and locks a file or directory. Closing it releases the lock.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
