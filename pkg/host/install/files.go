// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// paths are the files that the installer writes.
type paths struct {
	program, previous     string
	state                 string
	remover, removerInRun string
	proc                  string
}

// hostPaths are the paths in the MachineConfig and in the script, which are constant.
func hostPaths(stateDirectory string) paths {
	const program = "/usr/local/bin/http01-proxyd"
	return paths{
		program: program, previous: program + ".previous",
		state:   filepath.Join(stateDirectory, "state.json"),
		remover: "/usr/local/lib/systemd/system/" + removerName, removerInRun: "/run/systemd/system/" + removerName,
		proc: "/proc",
	}
}

// stepTimeout bounds one command.
const stepTimeout = time.Minute

// checksum is the SHA-256 of a file; empty without the file.
func checksum(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("compute a checksum: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("compute the checksum of %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// swap installs the binary at next. keep: the installed binary became ready, and becomes the
// previous one. A power loss leaves either binary in the place of the program, never a part.
func (p paths) swap(next string, keep bool) error {
	if err := syncPath(next); err != nil {
		return err
	}
	if keep {
		second := p.previous + ".next" // of an interrupted run, it may exist
		if err := os.Remove(second); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.Link(p.program, second), os.Rename(second, p.previous)); err != nil {
			return err
		}
	}
	if err := os.Rename(next, p.program); err != nil {
		return err
	}
	return syncPath(filepath.Dir(p.program))
}

// restore puts the previous binary in the place of the installed one.
func (p paths) restore() error {
	if err := os.Rename(p.previous, p.program); err != nil {
		return err
	}
	return syncPath(filepath.Dir(p.program))
}

// exchange swaps the installed binary and the previous one.
func (p paths) exchange() error {
	if err := unix.Renameat2(unix.AT_FDCWD, p.previous, unix.AT_FDCWD, p.program, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	return syncPath(filepath.Dir(p.program))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// commander runs commands.
type commander func(ctx context.Context, name string, args ...string) (output string, err error)

// runCommand runs a command for at most stepTimeout.
func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %.4096s", name, err, bytes.TrimSpace(out))
	}
	return string(out), err
}

// label sets the SELinux type of the units of the operating system, on hosts with SELinux. The
// policy of RHEL CoreOS may define another type for /usr/local/lib, which systemd cannot read.
// restorecon sets the wrong type for a moment, so the file must not be named like a unit yet.
func (r *run) label(ctx context.Context, path string) {
	if !r.selinux {
		return
	}
	_, err := r.command(ctx, "restorecon", path)
	if err == nil {
		_, err = r.command(ctx, "chcon", "--reference=/usr/lib/systemd/system", path)
	}
	if err != nil {
		r.log(warning, fmt.Sprintf("cannot set the SELinux type of %s: %v", path, err))
	}
}
