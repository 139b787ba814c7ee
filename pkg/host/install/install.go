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
	ExitFailed = 10 // the run failed, and has reported it
	ExitPull   = 11 // the image must be pulled
	ExitNext   = 12 // the run failed, and has reported it; another binary may succeed
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
	// rejectedAgain is how long the next runs only report a rejected image again.
	rejectedAgain = 60
)

// Options are the input of a run.
type Options struct {
	Candidate string              // file with the extracted binary; empty without one
	Getenv    func(string) string // environment of the unit
	Environ   []string
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
	uptime  func() int64
	boot    string // its ID
	machine string // as in uname -m
	settle  time.Duration

	state State
	file  stateFile
}

// Run makes the host run the required binary and returns the exit code of the command.
func Run(ctx context.Context, o Options) int {
	directory := o.Getenv("STATE_DIRECTORY")
	if directory == "" {
		directory = "/var/lib/http01-proxyd/install"
	}
	r := &run{
		Options: o, paths: hostPaths(directory), command: runCommand,
		uptime: uptime, machine: machine(), settle: settleTime(o.Getenv("HTTP01_PROXYD_SETTLE_TIME")),
	}
	_, err := os.Stat("/sys/fs/selinux/enforce")
	r.selinux = err == nil
	id, err := textfile.Read("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return r.fail(err, Observation{})
	}
	r.boot = strings.TrimSpace(string(id))
	bus, err := systemd.OpenManager(ctx)
	if err != nil {
		return r.fail(err, Observation{})
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

// uptime is in seconds since the boot.
func uptime() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return now.Sec
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
	r.state, r.file = state, stateFile{path: r.paths.state}
	o, err := r.begin(ctx)
	if err == nil {
		err = r.file.save(r.state)
	}
	if err != nil {
		return r.fail(err, o)
	}
	decision := r.state.Decide(o)
	switch decision {
	case Pull:
		return ExitPull
	case ReportRejected:
		return r.failWith(rejectedText(o.Image))
	case ReportMismatch:
		return r.failWith(fmt.Sprintf("the binary in %s has the checksum %s, not that of an earlier pull. The installed "+
			"binary is unchanged. Remove the image from this host: podman rmi %s", o.Image, o.Candidate, o.Image))
	case GoBack:
		return r.goBack(ctx, o)
	case SwapCandidate, SwapPrevious:
		if err := r.swap(ctx, decision, &o); err != nil {
			return r.fail(err, o)
		}
	case Keep, KeepPrevious:
	}
	return r.startInstalled(ctx, decision, o)
}

// begin observes the host, before it changes anything but the remover.
func (r *run) begin(ctx context.Context) (Observation, error) {
	o := Observation{Image: r.Image(), ByTimer: r.Getenv("TRIGGER_UNIT") == timer}
	o.Checksum, o.Unlisted = r.checksumFor(r.machine)
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
		r.state.Installed = Binary{SHA256: o.Program} // an active service has become ready
	}
	booted := r.state.Boot.ID != r.boot
	if booted {
		r.state.Boot = Boot{ID: r.boot}
		if serving && !u.NeedReload {
			// The boot has started the service. If a file has changed since systemd has read it,
			// the files are not those that the service was started from.
			if r.state.Boot.Started, err = definition(u, o.Program); err != nil {
				return o, err
			}
		}
	}
	o.JustRejected = r.state.Boot.RejectedAt != 0 && r.uptime()-r.state.Boot.RejectedAt < rejectedAgain
	return o, r.prepareRemover(ctx, booted)
}

// checksumFor is the checksum that the environment has for a machine. unlisted: it has some, but
// none for this machine.
func (r *run) checksumFor(machine string) (sum string, unlisted bool) {
	const prefix = "HTTP01_PROXYD_SHA256_"
	if sum = r.Getenv(prefix + strings.ToUpper(machine)); sum != "" {
		return sum, false
	}
	for _, variable := range r.Environ {
		unlisted = unlisted || strings.HasPrefix(variable, prefix)
	}
	return "", unlisted
}

// prepareRemover writes the unit that removes the service. Each boot may have another SELinux policy.
// systemd may not have read the directory at the boot (rpm-ostree issue 1936), so a reload must
// precede the use of the unit.
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
func (r *run) swap(ctx context.Context, decision Decision, o *Observation) error {
	next := r.Candidate
	if decision == SwapPrevious {
		next = r.paths.next
		r.log(info, "using the previous binary, which has the checksum of "+o.Image)
		if err := link(r.paths.previous, next); err != nil {
			return fmt.Errorf("link the previous binary: %w", err)
		}
	}
	if _, err := r.version(ctx, next); err != nil {
		return fmt.Errorf("the binary in %s does not run on this %s host: %w. Use an image for this architecture",
			o.Image, r.machine, err)
	}
	r.state.Rejected = Binary{} // the image may be the rejected one, which is tried again
	if err := r.file.save(r.state); err != nil {
		return err
	}
	err := r.paths.swap(next, o.Program != "" && o.Program == r.state.Installed.SHA256)
	if err == nil {
		o.Program, err = checksum(r.paths.program)
	}
	if err == nil {
		o.Previous, err = checksum(r.paths.previous)
	}
	if err != nil {
		return fmt.Errorf("install the binary of %s: %w", o.Image, err)
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
		return r.fail(err, o)
	case result == NotReady && !known && o.Previous != "":
		r.state.Rejected = Binary{o.Image, o.Program}
		return r.goBack(ctx, o)
	case result == Ready && decision != KeepPrevious:
		r.state.setInstalled(Binary{o.Image, o.Program})
	}
	if err := r.file.save(r.state); err != nil {
		return r.fail(err, o)
	}
	switch {
	case result != Ready:
		return r.reportNotStarted(ctx, result, o)
	case decision == KeepPrevious:
		return r.succeed(ctx, warning, o.Image+" did not become ready before: the previous binary stays. Apply another "+
			"image, or retry this one: systemctl restart http01-proxyd-install")
	}
	text := o.Image + " is installed, unchanged"
	if decision != Keep || !known {
		version, err := r.version(ctx, r.paths.program)
		if err != nil {
			version = err.Error()
		}
		text = fmt.Sprintf("%s is installed: %s", o.Image, version)
	}
	return r.succeed(ctx, notice, text)
}

// goBack replaces the rejected binary by the previous one.
func (r *run) goBack(ctx context.Context, o Observation) int {
	if err := r.file.save(r.state); err != nil {
		return r.fail(err, o)
	}
	if err := r.paths.restore(); err != nil {
		return r.fail(fmt.Errorf("restore the previous binary: %w", err), o)
	}
	result, err := r.start(ctx, "restarting "+service+" with the previous binary")
	if err != nil {
		return r.fail(err, o)
	}
	rejected, text := r.state.Rejected.Image, ""
	switch result {
	case Ready:
		r.state.Boot.RejectedAt, text = r.uptime(), rejectedText(rejected)
	case NotReady:
		r.state.Rejected = Binary{} // the next run tries the image again
		text = fmt.Sprintf("%s, neither with %s nor with the previous binary, which is restored: see journalctl -u %s",
			notReady, rejected, service)
	case Stopped, Disabled:
	}
	if err := r.file.save(r.state); err != nil {
		return r.fail(err, o)
	}
	if text == "" {
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

func rejectedText(image string) string {
	return fmt.Sprintf("%s with %s: the previous binary is restored and serves. See journalctl -u %s. Apply another "+
		"image, or retry this one in a minute: systemctl restart http01-proxyd-install", notReady, image, service)
}

// reportNotStarted reports a service that has not become ready.
func (r *run) reportNotStarted(ctx context.Context, result Result, o Observation) int {
	switch result {
	case Disabled:
		return r.succeed(ctx, notice, service+" is disabled: stopped")
	case Stopped:
		return r.failWith(fmt.Sprintf("%s was stopped before it became ready with %s. The timer retries in 5 min.",
			service, o.Image))
	default:
		return r.failWith(fmt.Sprintf("%s: see journalctl -u %s", notReady, service))
	}
}

// succeed ends a run, and the retries.
func (r *run) succeed(ctx context.Context, level int, text string) int {
	r.log(level, text)
	r.stopTimer(ctx)
	return 0
}

// fail reports an error of the host or of this release.
func (r *run) fail(err error, o Observation) int {
	code := r.failWith(err.Error() + ".")
	if r.Candidate == "" && r.state.anotherMaySucceed(o) {
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
	text = strings.ReplaceAll(text, "\n", " ") // a priority and a status have one line
	prefix := ""
	if r.Getenv("JOURNAL_STREAM") != "" {
		prefix = fmt.Sprintf("<%d>", level)
	}
	fmt.Fprintf(r.Log, "%s%s\n", prefix, text)
	if level <= notice {
		_ = systemd.Notifier{}.StatusRead(text) // the journal has the text
	}
}
