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
	// baseDir holds one directory a lab; like the namespaces it is gone after
	// a reboot.
	baseDir = "/run/http01-lab"
	// prefix makes a lab's namespaces recognisable; the maker's process id and
	// a number follow.
	prefix   = "h01lab-"
	lockName = "lock"
)

// claim makes the directory of a new lab and locks it. The kernel drops the
// lock with this process, which is how Clean tells a crashed lab from one that
// lives, whatever became of the process id.
func claim() (id, dir string, lock *os.File, err error) {
	// No Clean may look at a directory before it is locked.
	base, err := lockBase()
	if err != nil {
		return "", "", nil, err
	}
	defer func() { _ = base.Close() }()
	dir, err = os.MkdirTemp(baseDir, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return "", "", nil, fmt.Errorf("make the lab's directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockName), nil, 0o600); err != nil {
		return "", "", nil, fmt.Errorf("make the lab's lock: %w", err)
	}
	lock, err = lockFile(filepath.Join(dir, lockName), unix.LOCK_EX)
	return filepath.Base(dir), dir, lock, err
}

// lockBase makes no other lab be claimed or cleaned until it is closed.
func lockBase() (*os.File, error) {
	if err := os.MkdirAll(baseDir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of labs: %w", err)
	}
	// Whatever of a lab has given up root, such as squid, has to come through to the
	// lab's own directory, which lets nobody else in unless it says so.
	if err := os.Chmod(baseDir, 0o711); err != nil { //nolint:gosec // to pass through, and no more
		return nil, fmt.Errorf("let programs of labs through: %w", err)
	}
	return lockFile(baseDir, unix.LOCK_EX)
}

// Clean removes what labs left whose process is gone, and returns their names.
// It never touches a lab that lives.
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
		dead, err := cleanOne(ctx, id)
		if err != nil {
			return removed, fmt.Errorf("remove lab %s: %w", id, err)
		}
		if dead {
			removed = append(removed, id)
		}
	}
	return removed, nil
}

// listLabs lists the labs that have a directory or the name of a namespace. A lab
// that lives always has its directory.
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

// labID is the part of a name that says which lab it is of.
var labID = regexp.MustCompile("^" + prefix + `[0-9]+-[0-9]+`)

// cleanOne removes one lab unless its process lives.
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

// removeNamespaces ends every process in a lab's namespaces and removes these, and
// the shared memory of its squid; what cannot be removed doesn't spare the rest.
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

// lockFile opens and locks a file or directory; closing it drops the lock.
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
