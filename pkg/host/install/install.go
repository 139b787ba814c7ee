// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// The exit codes of the command, beside 0. The script depends on them.
const (
	ExitFailed = 10 // the run failed, and reported it
	ExitPull   = 11 // the image must be pulled
	ExitNext   = 12 // the run failed, and reported it; another binary may succeed
)

// The levels of sd-daemon(3). The status of the unit shows those up to notice.
const (
	failure = 3
	warning = 4
	notice  = 5
	info    = 6
)

const (
	defaultSettle = time.Minute
	maxSettle     = 10 * time.Minute
)

// Options are the input of a run.
type Options struct {
	Candidate string              // file with the extracted binary; empty without one
	Getenv    func(string) string // environment of the unit
	Log       io.Writer
}

// Image is the image that the environment requires.
func (o Options) Image() string { return o.Getenv("HTTP01_PROXYD_IMAGE") }

// run is one run of the installer.
type run struct {
	Options

	paths   paths
	selinux bool
	command commander
	manager manager
	boot    string // its ID
	machine string // as in uname -m
	settle  time.Duration

	state State
}

// Run makes the host run the required binary and returns the exit code of the command.
func Run(ctx context.Context, o Options) int {
	directory := o.Getenv("STATE_DIRECTORY")
	if directory == "" {
		directory = "/var/lib/http01-proxyd/install"
	}
	r := &run{
		Options: o, paths: hostPaths(directory), command: runCommand,
		machine: machine(), settle: settleTime(o.Getenv("HTTP01_PROXYD_SETTLE_TIME")),
	}
	_, err := os.Stat("/sys/fs/selinux/enforce")
	r.selinux = err == nil
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // 37 bytes
	if err != nil {
		return r.fail(err)
	}
	r.boot = strings.TrimSpace(string(id))
	bus, err := systemd.OpenManager(ctx)
	if err != nil {
		return r.fail(err)
	}
	defer bus.Close()
	r.manager = bus
	return r.run(ctx)
}

func settleTime(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return defaultSettle
	}
	return min(time.Duration(seconds)*time.Second, maxSettle)
}

func machine() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Machine[:])
}

func (r *run) run(ctx context.Context) int {
	state, err := loadState(r.paths.state)
	if err != nil {
		r.log(warning, fmt.Sprintf("%v. The installer starts again without it.", err))
	}
	r.state = state
	o, err := r.begin(ctx)
	if err == nil {
		err = r.state.save(r.paths.state)
	}
	if err != nil {
		return r.fail(err)
	}
	decision := r.state.Decide(o)
	switch decision {
	case Pull:
		return ExitPull
	case GoBack:
		return r.goBack(ctx, o)
	case Swap, SwapPrevious:
		if err := r.swap(decision, &o); err != nil {
			return r.fail(err)
		}
	case Keep, KeepPrevious:
	}
	return r.startInstalled(ctx, decision, o)
}

// begin observes the host, before it changes anything but the remover.
func (r *run) begin(ctx context.Context) (Observation, error) {
	o := Observation{Image: r.Image(), Checksum: r.Getenv("HTTP01_PROXYD_SHA256_" + strings.ToUpper(r.machine))}
	var err error
	for path, sum := range map[string]*string{
		r.paths.program: &o.Program, r.paths.previous: &o.Previous, r.Candidate: &o.Candidate,
	} {
		if *sum, err = checksum(path); err != nil {
			return o, err
		}
	}
	u, err := r.manager.Unit(ctx, service)
	if err != nil {
		return o, err
	}
	serving := o.Program != "" && o.Program == r.paths.running(u)
	if serving && o.Program != r.state.Rejected.SHA256 && o.Program != r.state.Installed.SHA256 {
		r.state.Installed = Binary{SHA256: o.Program} // an active service became ready
	}
	booted := r.state.Boot.ID != r.boot
	if booted {
		r.state.Boot = Boot{ID: r.boot}
		if serving && !u.NeedReload {
			// The service was started during the boot. If a file changed since systemd read it,
			// the service was started from other files.
			if r.state.Boot.Started, err = definition(u, o.Program); err != nil {
				return o, err
			}
		}
	}
	return o, r.prepareRemover(ctx, booted)
}

// prepareRemover writes the unit that removes the service. The SELinux policy may differ after
// each boot. systemd may not read the directory during the boot (rpm-ostree issue 1936), so a
// reload must precede the use of the unit.
func (r *run) prepareRemover(ctx context.Context, booted bool) error {
	old, err := textfile.Read(r.paths.remover, maxUnit)
	changed := err != nil || string(old) != Remover
	if !changed && !booted {
		return nil
	}
	err = textfile.ReplaceWith(r.paths.remover, []byte(Remover), func(temporary string) error {
		r.label(ctx, temporary)
		return os.Chmod(temporary, 0o644) //nolint:gosec // systemctl cat shows it to all users
	})
	if err != nil {
		return fmt.Errorf("write the unit for the removal: %w", err)
	}
	if changed {
		// An older copy in /run would take precedence.
		if err := os.Remove(r.paths.removerInRun); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove an older unit for the removal: %w", err)
		}
	}
	return r.manager.Reload(ctx)
}

// swap installs the required binary. A proven binary that it replaces becomes the previous one.
func (r *run) swap(decision Decision, o *Observation) error {
	r.state.Rejected = Binary{}
	if err := r.state.save(r.paths.state); err != nil {
		return err
	}
	proven, replaced := o.Program != "" && o.Program == r.state.Installed.SHA256, o.Program
	var err error
	switch {
	case decision == Swap:
		err, o.Program = r.paths.swap(r.Candidate, proven), o.Candidate
	case proven:
		err, o.Program = r.paths.exchange(), o.Previous
	default:
		err, o.Program, replaced = r.paths.restore(), o.Previous, ""
	}
	if err != nil {
		return fmt.Errorf("install the binary of %s: %w", o.Image, err)
	}
	if proven || decision == SwapPrevious {
		o.Previous = replaced
	}
	return nil
}

// startInstalled starts the service with the installed binary. If that does not become ready, and was
// not ready before, the previous one replaces it.
func (r *run) startInstalled(ctx context.Context, decision Decision, o Observation) int {
	result, err := r.start(ctx, "starting "+service)
	known := o.Program == r.state.Installed.SHA256
	switch {
	case err != nil:
		return r.fail(err)
	case result == NotReady && !known && o.Previous != "":
		r.state.Rejected = Binary{o.Image, o.Program}
		return r.goBack(ctx, o)
	case result == Ready && decision != KeepPrevious:
		r.state.Installed, r.state.Rejected = Binary{o.Image, o.Program}, Binary{}
	}
	if err := r.state.save(r.paths.state); err != nil {
		return r.fail(err)
	}
	switch {
	case result != Ready:
		return r.reportNotStarted(ctx, result, o)
	case decision == KeepPrevious:
		r.stopTimer(ctx)
		return r.failWith(r.rejectedText(o.Image))
	}
	text := o.Image + " is installed, unchanged"
	if decision != Keep || !known {
		version, err := r.version(ctx, r.paths.program)
		if err != nil {
			version = err.Error()
		}
		text = fmt.Sprintf("%s is installed: %s", o.Image, version)
	}
	r.succeed(ctx, text)
	return 0
}

// goBack replaces the rejected binary by the previous one.
func (r *run) goBack(ctx context.Context, o Observation) int {
	if err := r.state.save(r.paths.state); err != nil {
		return r.fail(err)
	}
	if err := r.paths.restore(); err != nil {
		return r.fail(fmt.Errorf("restore the previous binary: %w", err))
	}
	result, err := r.start(ctx, "restarting "+service+" with the previous binary")
	if err != nil {
		return r.fail(err)
	}
	rejected := r.state.Rejected.Image
	text := r.rejectedText(rejected)
	if result == NotReady {
		r.state.Rejected = Binary{} // the next run tries the image again
		text = fmt.Sprintf("%s, neither with %s nor with the previous binary, which is restored: see journalctl -u %s",
			notReady, rejected, service)
	}
	if err := r.state.save(r.paths.state); err != nil {
		return r.fail(err)
	}
	if result == Stopped || result == Disabled {
		return r.reportNotStarted(ctx, result, o)
	}
	if rejected == o.Image { // otherwise the timer retries, with the image that is required now
		r.stopTimer(ctx)
	}
	return r.failWith(text)
}

// version is the first line of the version of a binary.
func (r *run) version(ctx context.Context, binary string) (string, error) {
	out, err := r.command(ctx, binary, "version")
	line, _, _ := strings.Cut(out, "\n")
	return line, err
}

const notReady = service + " does not become ready"

func (r *run) rejectedText(image string) string {
	return fmt.Sprintf("%s with %s: the previous binary is restored and serves. See journalctl -u %s. Apply another "+
		"image, or retry this one: rm %s && systemctl restart http01-proxyd-install",
		notReady, image, service, r.paths.state)
}

// reportNotStarted reports a service that did not become ready.
func (r *run) reportNotStarted(ctx context.Context, result Result, o Observation) int {
	switch result {
	case Disabled:
		r.succeed(ctx, service+" is disabled: stopped")
		return 0
	case Stopped:
		return r.failWith(fmt.Sprintf("%s was stopped before it became ready with %s. The timer retries in 5 min.",
			service, o.Image))
	default:
		return r.failWith(fmt.Sprintf("%s: see journalctl -u %s", notReady, service))
	}
}

// succeed ends a run, and the retries.
func (r *run) succeed(ctx context.Context, text string) {
	r.log(notice, text)
	r.stopTimer(ctx)
}

// fail reports an error of the host or of this release. Another binary may succeed: the
// previous one, or the one in the image. Otherwise a release with such an error would prevent
// its own upgrade.
func (r *run) fail(err error) int {
	code := r.failWith(err.Error() + ".")
	if r.Candidate == "" {
		code = ExitNext
	}
	return code
}

func (r *run) failWith(text string) int {
	r.log(failure, text)
	return ExitFailed
}

// stopTimer ends the retries. The next boot and the next update start the timer again.
func (r *run) stopTimer(ctx context.Context) {
	if err := r.manager.QueueStop(ctx, timer); err != nil {
		r.log(warning, err.Error())
	}
}

// log writes a line to the journal (sd-daemon(3)). Up to notice it also sets the status of the unit.
func (r *run) log(level int, text string) {
	text = strings.ReplaceAll(text, "\n", " ") // a priority and a status apply to one line
	prefix := ""
	if r.Getenv("JOURNAL_STREAM") != "" {
		prefix = fmt.Sprintf("<%d>", level)
	}
	fmt.Fprintf(r.Log, "%s%s\n", prefix, text)
	if level <= notice {
		_ = systemd.Notifier{}.StatusRead(text) // the journal contains the text
	}
}
