// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Checksums and images of the tables.
const (
	good, other, candidate = "good", "other", "candidate"

	image      = "registry.test/x@sha256:1"
	otherImage = "registry.test/x@sha256:2"
	byTag      = "registry.test/x:latest"
)

// TestNext has each event in each phase. An event that began is also the next run after a power
// loss.
func TestNext(t *testing.T) {
	t.Parallel()
	c := Binary{image, candidate}
	proven := State{Phase: Settled, Binary: Binary{otherImage, good}, Proven: good}
	in := func(p Phase) State { return State{Phase: p, Binary: c, Proven: good} }
	with := func(s State, pulled ...Binary) State {
		s.Pulled = pulled
		return s
	}
	first := State{Phase: Settled}
	firstStarting := State{Phase: Starting, Binary: c}
	installed := State{Phase: Settled, Binary: c, Proven: candidate}

	type seenIn struct {
		Phase
		Event
	}
	seen := map[seenIn]bool{}
	for name, tt := range map[string]struct {
		s      State
		e      Event
		o      Observation
		want   State
		action Action
	}{
		// A run that nothing preceded.
		"began: first run":                      {first, Began, Observation{Image: image}, first, Pull},
		"began: first candidate":                {first, Began, Observation{Image: image, Candidate: candidate}, State{Phase: Swapping, Binary: c}, SwapCandidate},
		"began: first candidate, checksum":      {first, Began, Observation{Image: image, Candidate: candidate, Checksum: candidate}, State{Phase: Swapping, Binary: c}, SwapCandidate},
		"began: another way, serving":           {first, Began, Observation{Image: image, Program: good, Serving: true}, State{Phase: Settled, Proven: good}, Pull},
		"began: another way, not serving":       {first, Began, Observation{Image: image, Program: good}, first, Pull},
		"began: copied by hand, serving":        {proven, Began, Observation{Image: otherImage, Program: other, Serving: true, Checksum: good}, State{Phase: Settled, Binary: proven.Binary, Proven: other}, Pull},
		"began: copied by hand, not serving":    {proven, Began, Observation{Image: otherImage, Program: other, Checksum: good}, proven, Pull},
		"began: no checksum for the machine":    {proven, Began, Observation{Image: image, Program: good, Unlisted: true}, proven, Pull},
		"began: installed, by checksum":         {proven, Began, Observation{Image: otherImage, Program: good, Checksum: good}, proven, StartService},
		"began: installed, by an earlier pull":  {with(proven, proven.Binary), Began, Observation{Image: otherImage, Program: good}, with(proven, proven.Binary), StartService},
		"began: installed, by the candidate":    {proven, Began, Observation{Image: otherImage, Program: good, Candidate: good}, proven, StartService},
		"began: earlier image, same binary":     {proven, Began, Observation{Image: image, Program: good, Checksum: good}, State{Phase: Settled, Binary: Binary{image, good}, Proven: good}, StartService},
		"began: another image":                  {proven, Began, Observation{Image: image, Program: good, Checksum: candidate}, proven, Pull},
		"began: its candidate":                  {proven, Began, Observation{Image: image, Program: good, Candidate: candidate}, in(Swapping), SwapCandidate},
		"began: another candidate":              {proven, Began, Observation{Image: image, Program: good, Checksum: other, Candidate: candidate}, proven, ReportMismatch},
		"began: other than in an earlier pull":  {with(proven, Binary{image, other}), Began, Observation{Image: image, Program: good, Candidate: candidate}, with(proven, Binary{image, other}), ReportMismatch},
		"began: installed, other than required": {with(proven, Binary{image, other}), Began, Observation{Image: image, Program: good, Candidate: good}, with(proven, Binary{image, other}), ReportMismatch},
		"began: the previous one is required":   {proven, Began, Observation{Image: image, Program: good, Previous: candidate, Checksum: candidate}, in(Swapping), SwapPrevious},
		"began: the binary was deleted":         {proven, Began, Observation{Image: otherImage, Checksum: good}, proven, Pull},
		"began: the binary was changed":         {proven, Began, Observation{Image: otherImage, Program: other, Checksum: good, Candidate: good}, State{Phase: Swapping, Binary: proven.Binary, Proven: good}, SwapCandidate},

		// Power losses.
		"power loss before the swap":               {in(Swapping), Began, Observation{Image: image, Program: good, Previous: good, Checksum: candidate}, in(Settled), Pull},
		"power loss before the first swap":         {State{Phase: Swapping, Binary: c}, Began, Observation{Image: image}, State{Phase: Settled, Binary: c}, Pull},
		"power loss before another swap":           {in(Swapping), Began, Observation{Image: image, Program: other}, State{Phase: Starting, Binary: Binary{SHA256: other}, Proven: good}, Pull},
		"power loss after the swap":                {in(Swapping), Began, Observation{Image: image, Program: candidate, Previous: good, Checksum: candidate}, in(Starting), StartService},
		"power loss while starting":                {in(Starting), Began, Observation{Image: image, Program: candidate, Previous: good, Candidate: candidate}, in(Starting), StartService},
		"power loss while starting, other image":   {in(Starting), Began, Observation{Image: otherImage, Program: candidate, Previous: good, Checksum: good}, State{Phase: Swapping, Binary: proven.Binary, Proven: good}, SwapPrevious},
		"power loss while starting the first one":  {firstStarting, Began, Observation{Image: image, Program: candidate}, firstStarting, Pull},
		"power loss before the restoration":        {in(Restoring), Began, Observation{Image: image, Program: candidate, Previous: good}, in(Restoring), RestorePrevious},
		"power loss after the restoration":         {in(Restoring), Began, Observation{Image: image, Program: good, ByTimer: true}, in(Rejected), StartService},
		"power loss before it, without a previous": {in(Restoring), Began, Observation{Image: image, Program: candidate, Checksum: candidate}, in(Starting), StartService},
		"power loss while restarting":              {in(Restarting), Began, Observation{Image: image, Program: good, ByTimer: true}, in(Rejected), StartService},

		// A rejected image.
		"rejected: again by the timer":    {in(Rejected), Began, Observation{Image: image, Program: good, ByTimer: true}, in(Rejected), StartService},
		"rejected: again by the daemon":   {in(Rejected), Began, Observation{Image: image, Program: good, JustRejected: true}, in(Rejected), ReportRejectedAgain},
		"rejected: again by hand":         {in(Rejected), Began, Observation{Image: image, Program: good, Checksum: candidate}, in(Rejected), Pull},
		"rejected: by hand, pulled":       {in(Rejected), Began, Observation{Image: image, Program: good, Checksum: candidate, Candidate: candidate}, in(Swapping), SwapCandidate},
		"rejected: copied by hand":        {in(Rejected), Began, Observation{Image: image, Program: other, Serving: true, Candidate: candidate}, State{Phase: Swapping, Binary: c, Proven: other}, SwapCandidate},
		"rejected: another image":         {in(Rejected), Began, Observation{Image: otherImage, Program: good, Checksum: other, JustRejected: true}, in(Rejected), Pull},
		"rejected: back to the installed": {in(Rejected), Began, Observation{Image: otherImage, Program: good, Checksum: good}, proven, StartService},

		// The disk.
		"settled, swapped":    {proven, Swapped, Observation{}, proven, ReportUnexpected},
		"swapping, swapped":   {in(Swapping), Swapped, Observation{}, in(Starting), StartService},
		"starting, swapped":   {in(Starting), Swapped, Observation{}, in(Starting), ReportUnexpected},
		"restoring, swapped":  {in(Restoring), Swapped, Observation{}, in(Restoring), ReportUnexpected},
		"restarting, swapped": {in(Restarting), Swapped, Observation{}, in(Restarting), ReportUnexpected},
		"rejected, swapped":   {in(Rejected), Swapped, Observation{}, in(Rejected), ReportUnexpected},

		"settled, restored":    {proven, Restored, Observation{}, proven, ReportUnexpected},
		"swapping, restored":   {in(Swapping), Restored, Observation{}, in(Swapping), ReportUnexpected},
		"starting, restored":   {in(Starting), Restored, Observation{}, in(Starting), ReportUnexpected},
		"restoring, restored":  {in(Restoring), Restored, Observation{}, in(Restarting), StartService},
		"restarting, restored": {in(Restarting), Restored, Observation{}, in(Restarting), ReportUnexpected},
		"rejected, restored":   {in(Rejected), Restored, Observation{}, in(Rejected), ReportUnexpected},

		// The service.
		"settled, ready":         {proven, Ready, Observation{}, with(proven, proven.Binary), ReportUnchanged},
		"settled, ready, by tag": {State{Phase: Settled, Binary: Binary{byTag, good}, Proven: good}, Ready, Observation{}, State{Phase: Settled, Binary: Binary{byTag, good}, Proven: good}, ReportUnchanged},
		"swapping, ready":        {in(Swapping), Ready, Observation{}, in(Swapping), ReportUnexpected},
		"starting, ready":        {in(Starting), Ready, Observation{Previous: good}, with(installed, c), ReportInstalled},
		"restoring, ready":       {in(Restoring), Ready, Observation{}, in(Restoring), ReportUnexpected},
		"restarting, ready":      {in(Restarting), Ready, Observation{}, in(Rejected), ReportRejected},
		"rejected, ready":        {in(Rejected), Ready, Observation{}, in(Rejected), ReportKept},

		"settled, not ready":                    {proven, NotReady, Observation{Previous: other}, proven, ReportNotReady},
		"swapping, not ready":                   {in(Swapping), NotReady, Observation{}, in(Swapping), ReportUnexpected},
		"starting, not ready":                   {in(Starting), NotReady, Observation{Previous: good}, in(Restoring), RestorePrevious},
		"starting, not ready, without previous": {firstStarting, NotReady, Observation{}, firstStarting, ReportNotReady},
		"restoring, not ready":                  {in(Restoring), NotReady, Observation{}, in(Restoring), ReportUnexpected},
		"restarting, not ready":                 {in(Restarting), NotReady, Observation{}, State{Phase: Settled, Binary: Binary{SHA256: good}, Proven: good}, ReportNeitherReady},
		"rejected, not ready":                   {in(Rejected), NotReady, Observation{}, in(Rejected), ReportNotReady},

		"settled, stopped":    {proven, Stopped, Observation{}, proven, ReportStopped},
		"swapping, stopped":   {in(Swapping), Stopped, Observation{}, in(Swapping), ReportUnexpected},
		"starting, stopped":   {in(Starting), Stopped, Observation{Previous: good}, in(Starting), ReportStopped},
		"restoring, stopped":  {in(Restoring), Stopped, Observation{}, in(Restoring), ReportUnexpected},
		"restarting, stopped": {in(Restarting), Stopped, Observation{}, in(Rejected), ReportStopped},
		"rejected, stopped":   {in(Rejected), Stopped, Observation{}, in(Rejected), ReportStopped},

		"settled, disabled":    {proven, Disabled, Observation{}, with(proven, proven.Binary), ReportDisabled},
		"swapping, disabled":   {in(Swapping), Disabled, Observation{}, in(Swapping), ReportUnexpected},
		"starting, disabled":   {in(Starting), Disabled, Observation{Previous: good}, with(in(Starting), c), ReportDisabled},
		"restoring, disabled":  {in(Restoring), Disabled, Observation{}, in(Restoring), ReportUnexpected},
		"restarting, disabled": {in(Restarting), Disabled, Observation{}, in(Rejected), ReportDisabled},
		"rejected, disabled":   {in(Rejected), Disabled, Observation{}, in(Rejected), ReportDisabled},
	} {
		seen[seenIn{tt.s.Phase, tt.e}] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, action := tt.s.Next(tt.e, tt.o)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if action != tt.action {
				t.Errorf("action %d, want %d", action, tt.action)
			}
		})
	}
	for _, p := range phases() {
		for e := Began; e <= Disabled; e++ {
			if !seen[seenIn{p, e}] {
				t.Errorf("no row for event %d in the phase %s", e, p)
			}
		}
	}
}

// TestAnotherMaySucceed has each phase in which a run can have an error.
func TestAnotherMaySucceed(t *testing.T) {
	t.Parallel()
	state := func(p Phase) State { return State{Phase: p, Binary: Binary{image, candidate}, Proven: good} }
	pulled := state(Settled)
	pulled.Pulled = []Binary{{image, candidate}}
	seen := map[Phase]bool{}
	for name, tt := range map[string]struct {
		s    State
		o    Observation
		want bool
	}{
		"before the state is read":           {State{}, Observation{}, true},
		"before the host is observed":        {state(Settled), Observation{Image: image}, true},
		"settled: no checksum":               {state(Settled), Observation{Image: image, Program: candidate}, true},
		"settled: another binary":            {state(Settled), Observation{Image: image, Program: good, Checksum: candidate}, true},
		"settled: the required one":          {state(Settled), Observation{Image: image, Program: candidate, Checksum: candidate}, false},
		"settled: of an earlier pull":        {pulled, Observation{Image: image, Program: candidate}, false},
		"settled: another image":             {pulled, Observation{Image: otherImage, Program: candidate}, true},
		"settled: no binary":                 {state(Settled), Observation{Image: image, Checksum: candidate}, true},
		"swapping":                           {state(Swapping), Observation{Image: image, Program: good, Checksum: candidate}, true},
		"starting: the previous can restore": {state(Starting), Observation{Image: image, Program: candidate, Previous: good, Checksum: candidate}, true},
		"restoring: the previous can":        {state(Restoring), Observation{Image: image, Program: candidate, Previous: good, Checksum: candidate}, true},
		"restarting":                         {state(Restarting), Observation{Image: image, Program: good, Checksum: candidate}, true},
		"rejected: just now":                 {state(Rejected), Observation{Image: image, Program: good, Checksum: candidate, JustRejected: true}, false},
		"rejected: by the timer":             {state(Rejected), Observation{Image: image, Program: good, Checksum: candidate, ByTimer: true}, false},
		"rejected: by hand":                  {state(Rejected), Observation{Image: image, Program: good, Checksum: candidate}, true},
		"rejected: another image":            {state(Rejected), Observation{Image: otherImage, Program: good, Checksum: other, ByTimer: true, JustRejected: true}, true},
	} {
		seen[tt.s.Phase] = true
		if got := tt.s.anotherMaySucceed(tt.o); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	for _, p := range phases() {
		if !seen[p] {
			t.Errorf("no row for the phase %s", p)
		}
	}
}

// TestPulledIsBounded: the last pull is the first one, and each image is there once.
func TestPulledIsBounded(t *testing.T) {
	t.Parallel()
	var s State
	for i := range 2 * maxPulled {
		s.Binary = Binary{fmt.Sprintf("%s%d", image, i), good}
		s = s.recordPull()
	}
	s.Binary.SHA256 = other
	s = s.recordPull()
	if len(s.Pulled) != maxPulled || s.Pulled[0] != s.Binary || s.pulledBefore(s.Binary.Image) != other || s.Pulled[1].Image == s.Binary.Image {
		t.Errorf("%d pulls, the last one %+v", len(s.Pulled), s.Pulled[0])
	}
}

// disk is a host in memory, with the steps of each action that a power loss can separate.
type disk struct {
	state             State // in the file
	program, previous string
	ready             map[string]bool // binaries with which the service becomes ready
	pulled            bool            // the script has a candidate

	steps int // until the power loss; negative: none
}

// powerLoss ends a run.
type powerLoss struct{}

func (d *disk) step(change func()) {
	if d.steps == 0 {
		panic(powerLoss{})
	}
	d.steps--
	change()
}

// run is one run with all its actions. It returns the last one, or false after a power loss.
func (d *disk) run(t *testing.T, byTimer bool) (last Action, ended bool) {
	t.Helper()
	defer func() {
		if caught := recover(); caught != nil && caught != any(powerLoss{}) {
			panic(caught)
		}
		if d.previous != "" && !d.ready[d.previous] {
			t.Errorf("the previous binary %s has never become ready", d.previous)
		}
	}()
	o := Observation{Image: image, Program: d.program, Previous: d.previous, ByTimer: byTimer}
	if d.pulled {
		o.Candidate = candidate
	}
	s, event := d.state, Began
	for range 10 {
		s, last = s.Next(event, o)
		d.step(func() { d.state = s })
		switch last {
		case SwapCandidate:
			if d.program != "" && d.program == s.Proven {
				d.step(func() { d.previous = d.program })
			}
			d.step(func() { d.program = candidate })
			event = Swapped
		case RestorePrevious:
			d.step(func() { d.program, d.previous = d.previous, "" })
			event = Restored
		case StartService:
			event = NotReady
			if d.ready[d.program] {
				event = Ready
			}
		default:
			return last, true
		}
		o.Previous = d.previous
	}
	t.Fatalf("the run does not end: %+v", d)
	return last, false
}

// TestPowerLoss cuts the power before each step of an upgrade, and then lets the timer run the
// installer until it reports a result. The host always has a binary that becomes ready, if there
// is one.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before  State
		program string
		ready   map[string]bool
		result  Phase
		end     string // the binary at the end
		steps   int    // of a run without a power loss
	}{
		"first, ready":       {State{Phase: Settled}, "", map[string]bool{candidate: true}, Settled, candidate, 4},
		"first, not ready":   {State{Phase: Settled}, "", nil, Starting, candidate, 4},
		"upgrade, ready":     {State{Phase: Settled, Proven: good}, good, map[string]bool{good: true, candidate: true}, Settled, candidate, 5},
		"upgrade, not ready": {State{Phase: Settled, Proven: good}, good, map[string]bool{good: true}, Rejected, good, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cut := 0
			for ended := false; !ended; cut++ {
				d := &disk{state: tt.before, program: tt.program, ready: tt.ready, pulled: true, steps: cut}
				_, ended = d.run(t, false)
				d.steps = -1
				var last Action
				for d.pulled = false; ; {
					if last, _ = d.run(t, true); last != Pull {
						break
					}
					d.pulled = true
				}
				if d.state.Phase != tt.result || d.program != tt.end {
					t.Errorf("power loss before step %d: phase %s, binary %q, action %d; want %s with %q", cut, d.state.Phase, d.program, last, tt.result, tt.end)
				}
			}
			if cut-1 != tt.steps {
				t.Errorf("the run has %d steps, want %d", cut-1, tt.steps)
			}
		})
	}
}
