// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/debian"
)

const (
	kernelFile   = "vmlinuz"
	archiveFile  = "tree.cpio"
	systemPrefix = "guest-"
)

// packages returns the guest's packages: a kernel, what a lab needs, and a shell.
func packages(arch string) []string {
	return []string{
		"linux-image-cloud-" + arch, "busybox", "util-linux",
		"iproute2", "nftables", "keepalived", "haproxy", "ca-certificates",
	}
}

// trim removes files that a guest in memory does not need. $1 is the directory.
//
//go:embed trim.sh
var trim string

//go:embed init.sh
var initScript string

// ensureSystem returns a directory with the kernel and the file archive of an
// architecture's guest. The first of several processes creates it, which takes half a
// minute and the network.
func ensureSystem(ctx context.Context, cache, arch string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(packages(arch), "\n") + debian.Suite + trim + initScript))
	dir := filepath.Join(cache, systemPrefix+arch+"-"+hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // a repository's directory
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cache, systemPrefix+"lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = lock.Close() }()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, build(ctx, cache, dir, arch)
}

// build creates the directory under another name and renames it, so that it is complete or
// absent. The caller holds the lock.
func build(ctx context.Context, cache, dir, arch string) error {
	aside := filepath.Join(cache, "."+systemPrefix+"new")
	// A killed build left this. With the lock held, no other build runs.
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("remove an unfinished guest: %w", err)
	}
	tree := filepath.Join(aside, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil { //nolint:gosec // becomes the guest's "/"
		return fmt.Errorf("make the guest's directory: %w", err)
	}
	err := bootstrap(ctx, tree, arch)
	if err == nil {
		err = pack(tree, aside)
	}
	if err == nil {
		err = os.RemoveAll(tree)
	}
	if err == nil {
		err = os.Rename(aside, dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("create the guest: %w", err), os.RemoveAll(aside))
	}
	return nil
}

// bootstrap unpacks the packages into tree without running their scripts, and trims the
// tree.
func bootstrap(ctx context.Context, tree, arch string) error {
	if err := debian.Bootstrap(ctx, debian.Suite, tree, "--variant=extract", "--architectures="+arch, "--include="+
		strings.Join(packages(arch), ",")); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "sh", "-c", trim, "trim.sh", tree).CombinedOutput(); err != nil {
		return fmt.Errorf("trim the guest's files: %w\n%s", errors.Join(err, context.Cause(ctx)), out)
	}
	return nil
}

// pack moves the kernel out of a tree and writes the rest into an archive.
func pack(tree, into string) error {
	kernels, err := filepath.Glob(filepath.Join(tree, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("kernels %q, want one: %w", kernels, err)
	}
	if err := os.Rename(kernels[0], filepath.Join(into, kernelFile)); err != nil {
		return fmt.Errorf("move the kernel: %w", err)
	}
	f, err := os.Create(filepath.Join(into, archiveFile))
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	a := newArchive(f)
	err = a.tree(tree)
	if err == nil {
		err = a.text("init", 0o755, initScript)
	}
	return errors.Join(err, a.close(), f.Close())
}
