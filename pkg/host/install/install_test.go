// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// fakeManager has one service. The real manager is used in test/suites/delivery.
type fakeManager struct {
	unit    systemd.Unit
	enabled time.Time     // from then on the service is enabled
	restart func() string // the result of the job
	reload  func()
	fails   error  // of each query
	start   func() // of the main process
	step    func() // before each call, if there is one

	stopFails error // of QueueStop
	calls     []string
}

func (m *fakeManager) Unit(context.Context, string) (systemd.Unit, error) {
	if m.step != nil {
		m.step()
	}
	u := m.unit
	if !m.enabled.IsZero() && time.Now().Before(m.enabled) {
		u.UnitFileState = "disabled"
	}
	return u, m.fails
}

func (m *fakeManager) Reload(context.Context) error {
	if m.reload != nil {
		m.reload()
	}
	return m.called("reload")
}

func (m *fakeManager) Restart(_ context.Context, name string) (string, error) {
	if m.step != nil {
		m.step()
	}
	result := "done"
	if m.restart != nil {
		result = m.restart()
	}
	if result == "done" {
		m.start()
	}
	return result, m.called("restart " + name)
}

func (m *fakeManager) Stop(_ context.Context, name string) error { return m.called("stop " + name) }

func (m *fakeManager) QueueStop(_ context.Context, name string) error {
	return errors.Join(m.called("queue stop "+name), m.stopFails)
}

func (m *fakeManager) called(call string) error {
	m.calls = append(m.calls, call)
	return nil
}

// newRun returns a run on a directory, with a service that runs the installed binary.
func newRun(t *testing.T, m *fakeManager, environment map[string]string) (*run, *strings.Builder) {
	t.Helper()
	dir := t.TempDir()
	unit := filepath.Join(dir, "unit")
	write(t, unit, "[Service]\n")
	m.unit.File, m.unit.LoadState, m.unit.MainPID = unit, "loaded", 1
	m.start = func() { write(t, filepath.Join(dir, "proc", "1", "exe"), read(t, filepath.Join(dir, "program"))) }
	var log strings.Builder
	return &run{
		Options: Options{Getenv: func(name string) string { return environment[name] }, Log: &log},
		paths: paths{
			program: filepath.Join(dir, "program"), previous: filepath.Join(dir, "previous"),
			state: filepath.Join(dir, "state", "state.json"), remover: filepath.Join(dir, "units", removerName),
			removerInRun: filepath.Join(dir, "run", removerName),
			proc:         filepath.Join(dir, "proc"),
		},
		command: func(_ context.Context, name string, _ ...string) (string, error) {
			return "version of " + filepath.Base(name) + "\n", nil
		},
		manager: m, boot: "this boot", machine: "x86_64", settle: time.Minute,
	}, &log
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestUpgradeAndRollback runs the installer on real files.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	m := &fakeManager{unit: systemd.Unit{ActiveState: "active", UnitFileState: "enabled"}}
	environment := map[string]string{"HTTP01_PROXYD_IMAGE": otherImage}
	r, log := newRun(t, m, environment)
	write(t, r.paths.program, "first")
	m.start()
	step := func(name, candidate string, code int, message string, files [2]string, calls ...string) {
		t.Helper()
		next, next2 := *r, r.paths.program+".candidate"
		if candidate != "" {
			write(t, next2, candidate)
			next.Candidate = next2
		}
		m.calls = nil
		log.Reset()
		if got := next.run(t.Context()); got != code || !strings.Contains(log.String(), message) {
			t.Errorf("%s: exit code %d with %q, want %d with %q", name, got, log, code, message)
		}
		if diff := cmp.Diff(files, [2]string{read(t, r.paths.program), read(t, r.paths.previous)}); diff != "" {
			t.Errorf("%s: the binary and the previous one (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(calls, m.calls); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", name, diff)
		}
	}
	const restart, endTimer = "restart " + service, "queue stop " + timer
	step("an installed binary", "", ExitPull, "", [2]string{"first", ""}, "reload")
	step("the same", "first", 0, "is installed, unchanged", [2]string{"first", ""}, endTimer)
	step("pulled before", "", 0, "is installed, unchanged", [2]string{"first", ""}, endTimer)
	environment["HTTP01_PROXYD_IMAGE"] = image
	step("another image", "", ExitPull, "", [2]string{"first", ""})
	step("its candidate", "second", 0, image+" is installed: version of program", [2]string{"second", "first"}, restart,
		endTimer)

	const checksum = "HTTP01_PROXYD_SHA256_X86_64"
	environment["HTTP01_PROXYD_IMAGE"], environment[checksum] = otherImage, sumOf(t, r.paths.previous)
	step("back, without a pull", "", 0, otherImage+" is installed: version of program", [2]string{"first", "second"},
		restart, endTimer)

	environment["HTTP01_PROXYD_IMAGE"], environment[checksum] = image+"3", ""
	starts := 0
	m.restart = func() string {
		if starts++; starts > 1 {
			return "done"
		}
		return "failed"
	}
	const restored = "the previous binary is restored and serves"
	step("not ready", "third", ExitFailed, restored, [2]string{"first", ""}, restart, restart, endTimer)
	step("again", "", ExitFailed, restored, [2]string{"first", ""}, endTimer)
	environment["HTTP01_PROXYD_IMAGE"] = otherImage
	step("back", "", 0, "is installed, unchanged", [2]string{"first", ""}, endTimer)

	if text := read(t, r.paths.remover); text != Remover {
		t.Errorf("the unit for the removal is %q", text)
	}
}

// TestResults checks the results that end a run after a power loss, or without a ready service.
func TestResults(t *testing.T) {
	t.Parallel()
	const restart, endTimer = "restart " + service, "queue stop " + timer
	for name, tt := range map[string]struct {
		rejected, required string // images
		program, previous  string
		absent             bool   // the unit
		result             string // of the job
		log, end           string // the binary at the end
		calls              []string
	}{
		"back after a power loss": {image, image, "second", "first", false, "done", "with " + image +
			": the previous binary is restored and serves", "first", []string{restart, endTimer}},
		"back, another image by now": {image, otherImage, "second", "first", false, "done", "with " + image +
			": the previous binary", "first", []string{restart}},
		"neither is ready": {image, image, "second", "first", false, "failed", "neither with " + image +
			" nor with the previous binary", "first", []string{restart, endTimer}},
		"stopped while going back": {
			image, image, "second", "first", false, "canceled",
			"was stopped before it became ready", "first",
			[]string{restart},
		},
		"stopped": {
			"", byTag, "second", "", false, "canceled",
			"was stopped before it became ready with " + byTag, "second",
			[]string{restart},
		},
		"not ready, nothing to go to": {
			"", byTag, "second", "", false, "timeout", "does not become ready: see", "second",
			[]string{restart},
		},
		"rejected, and not ready now": {
			image, image, "first", "", false, "failed", "does not become ready: see", "first",
			[]string{restart},
		},
		"no such unit on the host": {"", byTag, "second", "", true, "done", "is not installed on this host", "second", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &fakeManager{restart: func() string { return tt.result }}
			r, log := newRun(t, m, map[string]string{"HTTP01_PROXYD_IMAGE": tt.required})
			if tt.absent {
				m.unit.LoadState = "not-found"
			}
			write(t, r.paths.remover, Remover)
			for path, text := range map[string]string{
				r.paths.program: tt.program, r.paths.previous: tt.previous,
				r.paths.program + ".candidate": "second",
			} {
				if text != "" {
					write(t, path, text)
				}
			}
			r.Candidate = r.paths.program + ".candidate"
			state := State{Installed: Binary{otherImage, "first"}, Boot: Boot{ID: r.boot}}
			if tt.rejected != "" {
				state.Rejected = Binary{tt.rejected, sumOf(t, r.paths.program+".candidate")}
			}
			if err := state.save(r.paths.state); err != nil {
				t.Fatal(err)
			}
			if code := r.run(t.Context()); code != ExitFailed || !strings.Contains(log.String(), tt.log) {
				t.Errorf("exit code %d with %q, want %d with %q", code, log, ExitFailed, tt.log)
			}
			if got := read(t, r.paths.program); got != tt.end {
				t.Errorf("the binary is %q, want %q", got, tt.end)
			}
			if diff := cmp.Diff(tt.calls, m.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestErrorHandsOver: a run with an error does not prevent the run of another binary, and the
// run of a candidate is the last one.
func TestErrorHandsOver(t *testing.T) {
	t.Parallel()
	r, log := newRun(t, &fakeManager{fails: errors.New("systemd does not respond")},
		map[string]string{"HTTP01_PROXYD_IMAGE": image})
	for candidate, want := range map[string]int{"": ExitNext, r.paths.program + ".candidate": ExitFailed} {
		r.Candidate = candidate
		if code := r.run(t.Context()); code != want || !strings.Contains(log.String(), "systemd does not respond.") {
			t.Errorf("candidate %q: exit code %d with %q, want %d", candidate, code, log, want)
		}
	}
}

// TestChangedSinceBoot: files that changed since systemd read them are not those that the
// boot started the service from. A drop-in may have been removed.
func TestChangedSinceBoot(t *testing.T) {
	t.Parallel()
	m := &fakeManager{unit: systemd.Unit{
		ActiveState: "active", UnitFileState: "enabled",
		DropIns: []string{"/removed/drop-in"}, NeedReload: true,
	}}
	m.reload = func() { m.unit.DropIns, m.unit.NeedReload = nil, false }
	r, log := newRun(t, m, map[string]string{"HTTP01_PROXYD_IMAGE": image})
	write(t, r.paths.program, "first")
	m.start()
	write(t, r.paths.remover, Remover)
	r.Candidate = r.paths.program + ".candidate"
	write(t, r.Candidate, "first")
	if code := r.run(t.Context()); code != 0 {
		t.Errorf("exit code %d with %q", code, log)
	}
	if !slices.Contains(m.calls, "restart "+service) {
		t.Errorf("the service runs without its changed unit: %v", m.calls)
	}
}

// TestDisabledService: the service is stopped only if it stays disabled for the settle time.
func TestDisabledService(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		disabled time.Duration
		took     time.Duration
		calls    []string
		log      string
	}{
		"for a moment": {
			30 * time.Second, 30 * time.Second,
			[]string{"reload", "queue stop " + timer},
			"is installed, unchanged",
		},
		"for long": {
			time.Hour, time.Minute,
			[]string{"reload", "stop " + service, "queue stop " + timer},
			"is disabled: stopped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &fakeManager{
					unit:    systemd.Unit{ActiveState: "active", UnitFileState: "enabled"},
					enabled: time.Now().Add(tt.disabled),
				}
				r, log := newRun(t, m, map[string]string{"HTTP01_PROXYD_IMAGE": image})
				write(t, r.paths.program, "first")
				m.start()
				r.Candidate = r.paths.program + ".candidate"
				write(t, r.Candidate, "first")
				begin := time.Now()
				if code := r.run(t.Context()); code != 0 || !strings.Contains(log.String(), tt.log) {
					t.Errorf("exit code %d with %q", code, log)
				}
				if took := time.Since(begin); took != tt.took {
					t.Errorf("the run took %v, want %v", took, tt.took)
				}
				if diff := cmp.Diff(tt.calls, m.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestLabels: the unit gets the type of the units of the system, after the default of its place.
func TestLabels(t *testing.T) {
	t.Parallel()
	for on, want := range map[bool][]string{
		true:  {"restorecon /unit", "chcon --reference=/usr/lib/systemd/system /unit"},
		false: nil,
	} {
		var got []string
		r := run{selinux: on, command: func(_ context.Context, name string, args ...string) (string, error) {
			got = append(got, strings.Join(append([]string{name}, args...), " "))
			return "", nil
		}}
		r.label(t.Context(), "/unit")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("SELinux %v (-want +got):\n%s", on, diff)
		}
	}
}

// TestWarnings: an unreadable state, an SELinux type that cannot be set and a timer that does not stop
// do not prevent an installation.
func TestWarnings(t *testing.T) {
	t.Parallel()
	m := &fakeManager{stopFails: errors.New("no timer"), unit: systemd.Unit{ActiveState: "active"}}
	environment := map[string]string{"HTTP01_PROXYD_IMAGE": image, "JOURNAL_STREAM": "8:1"}
	r, log := newRun(t, m, environment)
	r.selinux, r.Candidate = true, r.paths.program+".candidate"
	write(t, r.paths.state, "{")
	write(t, r.Candidate, "second")
	works := r.command
	r.command = func(ctx context.Context, name string, args ...string) (string, error) {
		if name == "restorecon" {
			return "", errors.New("no policy")
		}
		return works(ctx, name, args...)
	}
	if code := r.run(t.Context()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"<4>read the state in ", "<4>cannot set the SELinux type of ", "no policy\n",
		"is installed: version", "<4>no timer\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
}

// TestUnitIsLabelledFirst: a unit file has its SELinux type and its mode before it has its name, and
// a boot replaces the file instead of changing the type of one that systemd can read.
func TestUnitIsLabelledFirst(t *testing.T) {
	t.Parallel()
	m := &fakeManager{unit: systemd.Unit{ActiveState: "active", UnitFileState: "enabled"}}
	r, log := newRun(t, m, map[string]string{"HTTP01_PROXYD_IMAGE": image})
	var before string // content of the unit file while the next one is labelled
	var labelled []os.FileInfo
	r.selinux, r.command = true, func(_ context.Context, name string, args ...string) (string, error) {
		path := args[len(args)-1]
		if path == r.paths.remover || filepath.Dir(path) != filepath.Dir(r.paths.remover) {
			t.Errorf("%s of %s, want another name in that directory", name, path)
		}
		if got := read(t, r.paths.remover); got != before {
			t.Errorf("%s: the unit file is %.20q already", name, got)
		}
		if got := read(t, path); got != Remover {
			t.Errorf("%s: the file is %.20q", name, got)
		}
		info, err := os.Stat(path)
		labelled = append(labelled, info)
		return "", err
	}
	for _, boot := range []string{"first", "second"} {
		r.boot, labelled = boot, nil
		for range 2 { // the second run of a boot changes nothing
			if code := r.run(t.Context()); code != ExitPull {
				t.Fatalf("%s boot: exit code %d with %q", boot, code, log)
			}
		}
		info, err := os.Stat(r.paths.remover)
		if err != nil {
			t.Fatal(err)
		}
		if len(labelled) != 2 || !os.SameFile(labelled[1], info) || info.Mode() != 0o644 {
			t.Errorf("%s boot: labelled %d files, and not the unit file, of mode %v", boot, len(labelled), info.Mode())
		}
		before = Remover
	}
}

// TestSettleTime: a value that cannot be used is the default.
func TestSettleTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": time.Minute, "x": time.Minute, "-1": time.Minute, "0": 0,
		"3": 3 * time.Second, "65000": maxSettle,
	} {
		if got := settleTime(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestRunCommand: a failure has the output.
func TestRunCommand(t *testing.T) {
	t.Parallel()
	if out, err := runCommand(t.Context(), "echo", "version"); err != nil || out != "version\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := runCommand(t.Context(), "sh", "-c", "echo reason >&2; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "exit status 3: reason") {
		t.Errorf("got %v", err)
	}
}

// TestRemover: each path that the installer writes is removed.
func TestRemover(t *testing.T) {
	t.Parallel()
	p := hostPaths("/var/lib/http01-proxyd/install")
	for _, path := range []string{p.program, p.previous, p.previous + ".next"} {
		if !slices.Contains(strings.Fields(Remover), path) {
			t.Errorf("%s stays", path)
		}
	}
	if !strings.HasPrefix(p.state, "/var/lib/http01-proxyd/") ||
		!strings.Contains(Remover, "-rm -rf /var/lib/http01-proxyd ") {
		t.Error("the state stays")
	}
}
