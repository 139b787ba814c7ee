// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runTimeout limits the run of a guest.
const runTimeout = 10 * time.Minute

// marker is a parameter of the guest's kernel without effect.
const marker = "http01_proxyd_guest=1"

// Inside reports whether this process runs in a guest, where it can change what belongs to the
// whole machine.
func Inside() bool {
	line, err := os.ReadFile("/proc/cmdline")
	return err == nil && slices.Contains(strings.Fields(string(line)), marker)
}

// machine is what QEMU emulates for an architecture.
type machine struct {
	emulator string
	options  []string
	console  string // Linux's name of the first serial port
}

// machines returns the supported machines by architecture, as Go and Debian name it.
func machines() map[string]machine {
	return map[string]machine{
		"amd64": {"qemu-system-x86_64", []string{"-cpu", "max"}, "ttyS0"},
		// The default algorithm for pointer authentication is slow in QEMU
		// (docs/system/arm/cpu-features.rst, pauth-impdef).
		"arm64": {"qemu-system-aarch64", []string{"-machine", "virt", "-cpu", "max,pauth-impdef=on"}, "ttyAMA0"},
	}
}

// Job describes what a guest runs.
type Job struct {
	Arch   string            // Go's name of the guest's architecture: amd64 or arm64
	Files  map[string]string // files of this machine by absolute path in the guest
	Script string            // for sh, as root
}

// Run runs a job in a guest and returns its output. It returns an error when the script
// does not exit with status 0. Kernel and files of the guest are created in the directory
// cache when they are missing.
func Run(ctx context.Context, cache string, job Job) (string, error) {
	emulated, ok := machines()[job.Arch]
	if !ok {
		return "", fmt.Errorf("unsupported guest architecture %q", job.Arch)
	}
	if _, err := exec.LookPath(emulated.emulator); err != nil {
		return "", fmt.Errorf("a guest needs %s: run test/install-packages all: %w", emulated.emulator, err)
	}
	base, err := ensureSystem(ctx, cache, job.Arch)
	if err != nil {
		return "", err
	}
	own, err := os.MkdirTemp("", systemPrefix)
	if err != nil {
		return "", fmt.Errorf("create the guest's directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(own) }()
	memory := filepath.Join(own, "memory.cpio")
	if err := job.write(memory, filepath.Join(base, archiveFile)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, emulated.emulator, append(emulated.options,
		"-no-user-config", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-m", "2048",
		// 4 ns per instruction. An idle guest's clock jumps to the next timer.
		"-accel", "tcg", "-icount", "shift=2,sleep=off",
		"-kernel", filepath.Join(base, kernelFile), "-initrd", memory,
		"-append", "console="+emulated.console+" quiet panic=-1 "+marker)...)
	cmd.Stdout, cmd.Stderr = &printed, &printed
	// QEMU gets SIGKILL when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Run(); err != nil {
		return withoutCarriageReturns(printed.String()), fmt.Errorf("run a guest: %w", errors.Join(err, context.Cause(ctx)))
	}
	return splitExitStatus(withoutCarriageReturns(printed.String()))
}

// withoutCarriageReturns removes the carriage returns of a serial line.
func withoutCarriageReturns(printed string) string { return strings.ReplaceAll(printed, "\r", "") }

var exitStatusLine = regexp.MustCompile(`(?m)^guest: exit status (\d+)\n`)

// splitExitStatus splits the output into the script's text and its exit status.
func splitExitStatus(printed string) (string, error) {
	all := exitStatusLine.FindAllStringSubmatchIndex(printed, -1)
	if len(all) == 0 {
		return printed, errors.New("the guest ended before its script")
	}
	last := all[len(all)-1]
	text, status := printed[:last[0]], printed[last[2]:last[3]]
	if status != "0" {
		return text, fmt.Errorf("the guest's script ended with status %s", status)
	}
	return text, nil
}

// write writes the files of the guest and of the job into one archive.
func (j Job) write(to, base string) error {
	f, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("create the guest's memory file: %w", err)
	}
	defer func() { _ = f.Close() }()
	from, err := os.Open(base)
	if err != nil {
		return fmt.Errorf("create the guest's memory file: %w", err)
	}
	defer func() { _ = from.Close() }()
	if _, err := io.Copy(f, from); err != nil {
		return fmt.Errorf("create the guest's memory file: %w", err)
	}
	a := newArchive(f)
	made := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(j.Files)) {
		if err := a.parents(name, made); err != nil {
			return err
		}
		if err := a.file(strings.TrimPrefix(name, "/"), j.Files[name]); err != nil {
			return err
		}
	}
	return errors.Join(a.text("script", 0o644, j.Script), a.close())
}

// parents adds the parent directories of a file, each once.
func (a *archive) parents(name string, made map[string]bool) error {
	dir := path.Dir(name)
	if dir == "/" || made[dir] {
		return nil
	}
	if err := a.parents(dir, made); err != nil {
		return err
	}
	made[dir] = true
	return a.directory(strings.TrimPrefix(dir, "/"))
}
