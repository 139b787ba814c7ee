// SPDX-License-Identifier: Apache-2.0

package install

import (
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
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// paths are the files that the installer writes.
type paths struct {
	program, previous, next string
	state                   string
	remover, removerInRun   string
	proc                    string
}

// hostPaths are the paths in the MachineConfig and in the script, which are constant.
func hostPaths(stateDirectory string) paths {
	const program = "/usr/local/bin/http01-proxyd"
	return paths{
		program: program, previous: program + ".previous", next: filepath.Dir(program) + "/.http01-proxyd.next",
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

// swap installs the binary at next. keep: the installed one has become ready, and becomes the
// previous one. A power loss leaves either binary in the place of the program, never a part.
func (p paths) swap(next string, keep bool) error {
	if err := syncPath(next); err != nil {
		return err
	}
	if keep {
		link := p.previous + ".next"
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.Link(p.program, link), os.Rename(link, p.previous)); err != nil {
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

// copyPrevious copies the previous binary to next.
func (p paths) copyPrevious() (err error) {
	from, err := os.Open(p.previous)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(p.next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(0o755), to.Close())
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// hasText reports whether a unit file has a text.
func hasText(path, text string) bool {
	old, err := textfile.Read(path, maxState)
	return err == nil && string(old) == text
}

// writeUnit writes a unit file. label sets its SELinux type before systemd can read it.
func writeUnit(path, text string, label func(path string)) error {
	return textfile.ReplaceWith(path, []byte(text), func(temporary string) error {
		label(temporary)
		return os.Chmod(temporary, 0o644) //nolint:gosec // systemctl cat shows it to all users
	})
}

// commander runs commands.
type commander func(ctx context.Context, name string, args ...string) (output string, err error)

// runCommand runs a command for at most stepTimeout.
func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	var out limitedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// limitedBuffer keeps the first bytes of an output.
type limitedBuffer struct{ strings.Builder }

const maxOutput = 4 << 10

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Builder.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}

// seLinux sets the SELinux types of files, on hosts with SELinux.
type seLinux struct {
	on  bool
	run commander
}

func newSELinux() seLinux {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return seLinux{err == nil, runCommand}
}

// labelProgram sets the type that the policy has for a program in this directory.
func (s seLinux) labelProgram(ctx context.Context, path string) error {
	if !s.on {
		return nil
	}
	_, err := s.run(ctx, "restorecon", path)
	return err
}

// labelUnit sets the type of the units of the operating system. The policy of RHEL CoreOS may have
// another one for /usr/local/lib, which systemd cannot read. restorecon sets the wrong type for a
// moment, so the file must not have the name of a unit yet.
func (s seLinux) labelUnit(ctx context.Context, path string) error {
	if !s.on {
		return nil
	}
	if _, err := s.run(ctx, "restorecon", path); err != nil {
		return err
	}
	_, err := s.run(ctx, "chcon", "--reference=/usr/lib/systemd/system", path)
	return err
}
