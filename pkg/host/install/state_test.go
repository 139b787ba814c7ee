// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// Checksums and images of the tables.
const (
	good, other, candidate = "good", "other", "candidate"

	image      = "registry.test/x@sha256:1"
	otherImage = "registry.test/x@sha256:2"
	byTag      = "registry.test/x:latest"
)

// TestDecide has each decision. A run after a power loss decides by the same rules.
func TestDecide(t *testing.T) {
	t.Parallel()
	proven := State{Installed: Binary{otherImage, good}}
	rejected := State{Installed: Binary{otherImage, good}, Rejected: Binary{image, candidate}}
	for name, tt := range map[string]struct {
		s    State
		o    Observation
		want Decision
	}{
		"first run":       {State{}, Observation{Image: image}, Pull},
		"first candidate": {State{}, Observation{Image: image, Candidate: candidate}, Swap},
		"first candidate, checksum": {
			State{},
			Observation{Image: image, Candidate: candidate, Checksum: candidate},
			Swap,
		},
		"installed in another way": {State{}, Observation{Image: image, Program: good}, Pull},
		"copied by hand": {State{Installed: Binary{SHA256: other}}, Observation{
			Image: image, Program: other,
			Checksum: good,
		}, Pull},
		"installed, by checksum":        {proven, Observation{Image: otherImage, Program: good, Checksum: good}, Keep},
		"installed, by an earlier pull": {proven, Observation{Image: otherImage, Program: good}, Keep},
		"installed, by the candidate":   {proven, Observation{Image: image, Program: good, Candidate: good}, Keep},
		"another image, same binary":    {proven, Observation{Image: image, Program: good, Checksum: good}, Keep},
		"another image":                 {proven, Observation{Image: image, Program: good, Checksum: candidate}, Pull},
		"its candidate":                 {proven, Observation{Image: image, Program: good, Candidate: candidate}, Swap},
		"by tag": {
			State{Installed: Binary{byTag, good}},
			Observation{Image: byTag, Program: good},
			Pull,
		},
		"by tag, the same": {State{Installed: Binary{byTag, good}}, Observation{
			Image: byTag, Program: good,
			Candidate: good,
		}, Keep},
		"back, by checksum": {
			proven,
			Observation{Image: byTag, Program: good, Previous: other, Checksum: other},
			SwapPrevious,
		},
		"the binary was deleted": {proven, Observation{Image: otherImage, Checksum: good}, Pull},
		"the binary was changed": {
			proven,
			Observation{Image: otherImage, Program: other, Checksum: good, Candidate: good},
			Swap,
		},

		"power loss before the swap": {proven, Observation{
			Image: image, Program: good, Previous: good,
			Checksum: candidate,
		}, Pull},
		"power loss after the swap": {proven, Observation{
			Image: image, Program: candidate, Previous: good,
			Checksum: candidate,
		}, Keep},
		"power loss after the swap, no checksum": {
			proven,
			Observation{Image: image, Program: candidate, Previous: good},
			Pull,
		},
		"power loss after it, another image": {
			proven,
			Observation{Image: otherImage, Program: candidate, Previous: good},
			SwapPrevious,
		},
		"power loss before going back": {
			rejected,
			Observation{Image: image, Program: candidate, Previous: good},
			GoBack,
		},
		"power loss before it, another image": {
			rejected,
			Observation{Image: byTag, Program: candidate, Previous: good},
			GoBack,
		},
		"power loss before it, no previous": {
			rejected,
			Observation{Image: image, Program: candidate, Checksum: candidate},
			Keep,
		},

		"rejected: again": {
			rejected,
			Observation{Image: image, Program: good, Checksum: candidate},
			KeepPrevious,
		},
		"rejected: the binary is deleted": {rejected, Observation{Image: image, Checksum: candidate}, Pull},
		"rejected: another image":         {rejected, Observation{Image: byTag, Program: good, Checksum: other}, Pull},
		"rejected: back to the installed": {rejected, Observation{Image: otherImage, Program: good, Checksum: good}, Keep},
	} {
		if got := tt.s.Decide(tt.o); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestState: what is written can be read again, and a file that cannot be used is no state.
func TestState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	want := State{Installed: Binary{image, candidate}, Rejected: Binary{byTag, other}, Boot: Boot{"b", "s"}}
	if err := want.save(path); err != nil {
		t.Fatal(err)
	}
	got, err := loadState(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
	for text, message := range map[string]string{
		"{":                             "unexpected end",
		strings.Repeat("x", maxState+1): "longer",
		`{"phase": "settled"}`:          "", // of another release
	} {
		write(t, path, text)
		got, err := loadState(path)
		if diff := cmp.Diff(State{}, got); diff != "" || (err == nil) != (message == "") ||
			(err != nil && !strings.Contains(err.Error(), message)) {
			t.Errorf("%.40s: %v, %s", text, err, diff)
		}
	}
}

// powerLoss ends a run.
type powerLoss struct{}

// TestPowerLoss cuts the power before each command and each call of systemd in an upgrade, and then
// lets the timer run the installer until it reports a result. The host always has a binary that
// becomes ready, if there is one.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		program string
		ready   []string
		end     string // the binary at the end
	}{
		"first, ready":       {"", []string{"second"}, "second"},
		"first, not ready":   {"", nil, "second"},
		"upgrade, ready":     {"first", []string{"first", "second"}, "second"},
		"upgrade, not ready": {"first", []string{"first"}, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cut, ended := 0, false; !ended; cut++ {
				steps := cut
				step := func() {
					if steps == 0 {
						panic(powerLoss{})
					}
					steps--
				}
				m := &fakeManager{unit: systemd.Unit{UnitFileState: "enabled", ActiveState: "activating"}, step: step}
				r, log := newRun(t, m, map[string]string{"HTTP01_PROXYD_IMAGE": image})
				r.command = func(context.Context, string, ...string) (string, error) {
					step()
					return "", nil
				}
				m.restart = func() string {
					ready := strings.Contains(" "+strings.Join(tt.ready, " ")+" ", " "+read(t, r.paths.program)+" ")
					if !ready {
						return "failed"
					}
					m.unit.ActiveState = "active"
					return "done"
				}
				if tt.program != "" {
					write(t, r.paths.program, tt.program)
					if err := (State{Installed: Binary{otherImage, sumOf(t, r.paths.program)}}).save(r.paths.state); err != nil {
						t.Fatal(err)
					}
				}
				run := func(pulled bool) (code int, ended bool) {
					defer func() {
						if caught := recover(); caught != nil && caught != any(powerLoss{}) {
							panic(caught)
						}
					}()
					next := *r
					m.unit.ActiveState = "activating"
					if pulled {
						next.Candidate = r.paths.program + ".candidate"
						write(t, next.Candidate, "second")
					}
					return next.run(t.Context()), true
				}
				_, ended = run(true)
				steps = -1
				code, _ := run(false)
				if code == ExitPull {
					code, _ = run(true)
				}
				if got := read(t, r.paths.program); got != tt.end || code == ExitPull {
					t.Errorf("power loss before step %d: binary %q, exit code %d; want %q\n%s", cut, got, code, tt.end, log)
				}
				if cut > 30 {
					t.Fatal("the run does not end")
				}
			}
		})
	}
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	sum, err := checksum(path)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
