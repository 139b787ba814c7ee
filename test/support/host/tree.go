// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/debian"
)

const (
	// TreeVariable is the environment variable with a directory to use instead of a
	// generated tree.
	TreeVariable = "HTTP01_HOST_TREE"

	treePrefix = "host-tree-"
)

// packages returns the packages beyond Debian's minimum. RHEL CoreOS also uses dbus-broker;
// dbus-daemon disconnects dynamic users here. crun, netavark and gpg are podman's smallest
// dependencies. test/suites/packaging needs rpm, make and the programs of a repository.
func packages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus-broker", "iproute2", "nftables", "keepalived", "procps",
		"podman", "crun", "netavark", "gpg", "ca-certificates", "curl",
		"rpm", "make", "dnf", "createrepo-c", "gpg-agent",
	}
}

// hooks returns commands that make a new tree, $1, similar to RHEL CoreOS: only units in
// presets are enabled (systemd.preset(5)), and /usr/local is below /var. networkd
// configures the host's address. podman stores images as plain files, because overlayfs
// cannot be the upper layer of overlayfs.
func hooks() []string {
	return []string{
		`mkdir "$1/etc/systemd/system-preset"`,
		`printf 'enable %s\n' systemd-networkd.service systemd-networkd-wait-online.service keepalived.service dbus-broker.service >"$1/etc/systemd/system-preset/10-host.preset"`,
		`echo 'disable *' >"$1/etc/systemd/system-preset/99-default.preset"`,
		`chroot "$1" systemctl preset-all`,
		`mv "$1/usr/local" "$1/var/usrlocal" && ln -s ../var/usrlocal "$1/usr/local"`,
		`printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' >"$1/etc/containers/storage.conf"`,
		`rm "$1/etc/hostname" "$1/etc/resolv.conf"`,
	}
}

// Tree returns the directory of a Debian system for hosts. It creates the tree in cache
// when it is missing, which takes a minute and the network. Callers must not write into it.
// Several processes may call Tree concurrently.
func Tree(ctx context.Context, cache string) (string, error) {
	if given := os.Getenv(TreeVariable); given != "" {
		if _, err := os.Stat(filepath.Join(given, "usr/lib/systemd/systemd")); err != nil {
			return "", fmt.Errorf("%s is not a tree with systemd: %w", TreeVariable, err)
		}
		return given, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // a repository's directory
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	tree := filepath.Join(cache, treePrefix+treeHash())
	lock, err := lockFile(ctx, filepath.Join(cache, "host-tree.lock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	fmt.Fprintf(os.Stderr, "creating a Debian %s tree for test hosts: %s\n", debian.Suite, tree)
	return tree, build(ctx, cache, tree)
}

func treeHash() string {
	sum := sha256.Sum256([]byte(strings.Join(append(packages(), hooks()...), "\n") + "\n" + debian.Suite))
	return hex.EncodeToString(sum[:6])
}

// build creates the tree under another name and renames it, so that it is complete or
// absent. The caller holds the lock.
func build(ctx context.Context, cache, tree string) error {
	// A killed build left these. With the lock held, no other build runs.
	left, err := filepath.Glob(filepath.Join(cache, "."+treePrefix+"*"))
	if err != nil {
		return fmt.Errorf("list unfinished trees: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove an unfinished tree: %w", err)
		}
	}
	aside, err := os.MkdirTemp(cache, "."+treePrefix)
	if err != nil {
		return fmt.Errorf("create the tree's directory: %w", err)
	}
	err = bootstrap(ctx, aside)
	if err == nil {
		// It becomes the hosts' root, which their users must be able to enter.
		err = os.Chmod(aside, 0o755) //nolint:gosec // as every "/"
	}
	if err == nil {
		err = os.Rename(aside, tree)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("create the tree: %w", err), os.RemoveAll(aside))
	}
	return nil
}

func bootstrap(ctx context.Context, dir string) error {
	options := []string{"--variant=minbase", "--include=" + strings.Join(packages(), ",")}
	for _, hook := range hooks() {
		options = append(options, "--customize-hook="+hook)
	}
	return debian.Bootstrap(ctx, debian.Suite, dir, options...)
}

// lockFile creates and locks a file. Closing it releases the lock. It waits for another
// holder until ctx ends.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx)), f.Close())
		case <-look.C:
		}
	}
}
