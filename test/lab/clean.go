// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	if err := os.MkdirAll(baseDir, 0o750); err != nil {
		return "", "", nil, fmt.Errorf("make the directory of labs: %w", err)
	}
	// No Clean may look at a directory before it is locked.
	base, err := lockFile(baseDir, unix.LOCK_EX)
	if err != nil {
		return "", "", nil, err
	}
	defer func() { _ = base.Close() }()
	for n := 0; ; n++ {
		id = fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), n)
		dir = filepath.Join(baseDir, id)
		err := os.Mkdir(dir, 0o750)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", "", nil, fmt.Errorf("make the lab's directory: %w", err)
		}
		break
	}
	if err := os.WriteFile(filepath.Join(dir, lockName), nil, 0o600); err != nil {
		return "", "", nil, fmt.Errorf("make the lab's lock: %w", err)
	}
	lock, err = lockFile(filepath.Join(dir, lockName), unix.LOCK_EX)
	return id, dir, lock, err
}

func release(dir string, lock *os.File) error {
	return errors.Join(os.RemoveAll(dir), lock.Close())
}

// Clean removes what labs left whose process is gone, and returns their names.
// It never touches a lab that lives.
func Clean(ctx context.Context) ([]string, error) {
	base, err := lockFile(baseDir, unix.LOCK_EX)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	entries, err := os.ReadDir(baseDir)
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var removed []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		dead, err := cleanOne(ctx, e.Name())
		if err != nil {
			return removed, fmt.Errorf("remove lab %s: %w", e.Name(), err)
		}
		if dead {
			removed = append(removed, e.Name())
		}
	}
	return removed, nil
}

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
	for _, node := range nodeNames() {
		namespace := id + "-" + node
		if err := killAll(ctx, namespace); err != nil {
			return false, err
		}
		if err := deleteNamespace(ctx, namespace); err != nil {
			return false, err
		}
	}
	return true, os.RemoveAll(dir)
}

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
