// SPDX-License-Identifier: Apache-2.0

package microshift

// phase describes the relation of the configuration in force to the one that MicroShift has read.
type phase uint8

const (
	// unknown means that no valid configuration has been found.
	unknown phase = iota
	// provisional means that the configuration in force is from before MicroShift's present start.
	// What this start has read is not known: the files were changing or invalid.
	provisional
	// current means that the configuration in force is what MicroShift has read or, while it does
	// not run, will read.
	current
	// outdated means that the configuration in force is what MicroShift has read, and that the files
	// contain another one for its next start.
	outdated

	phases = iota
)

// event is what a Reader observes.
type event uint8

const (
	// stopped means that MicroShift has stopped.
	stopped event = iota
	// startedSettled means that MicroShift was started and the files are valid and settled.
	startedSettled
	// startedUnsettled means that MicroShift was started while the files are changing or invalid.
	startedUnsettled
	// candidateConfirmed means that the files were changed after the start, so that the start has
	// read the candidate.
	candidateConfirmed
	// settledInvalid means that invalid files have settled.
	settledInvalid
	// settledForStart means that valid files have settled which are in force, or which MicroShift
	// will read because it does not run.
	settledForStart
	// settledAfterStart means that other valid files than those in force have settled while
	// MicroShift runs.
	settledAfterStart

	events = iota
)

// action is what a transition does with the configuration in force.
type action uint8

const (
	keepInForce    action = iota
	adopt                 // the event's version is in force
	adoptUncertain        // adopt, and record the files that MicroShift may have read before their last change
	adoptNext             // the version for the next start is in force
	holdNext              // the event's version waits for the next start
)

// transition is the reaction to an event.
type transition struct {
	to phase
	do action
}

// transitions lists the reaction to each event in each phase. candidateConfirmed has no effect in the
// phases current and outdated: a candidate exists only until files settle after a start.
func transitions() [events][phases]transition {
	return [events][phases]transition{
		stopped:            {unknown: {unknown, keepInForce}, provisional: {provisional, keepInForce}, current: {current, keepInForce}, outdated: {current, adoptNext}},
		startedSettled:     {unknown: {unknown, keepInForce}, provisional: {provisional, keepInForce}, current: {current, keepInForce}, outdated: {current, adoptNext}},
		startedUnsettled:   {unknown: {unknown, keepInForce}, provisional: {provisional, keepInForce}, current: {provisional, keepInForce}, outdated: {provisional, adoptNext}},
		candidateConfirmed: {unknown: {current, adopt}, provisional: {current, adopt}, current: {current, keepInForce}, outdated: {outdated, keepInForce}},
		settledInvalid:     {unknown: {unknown, keepInForce}, provisional: {provisional, keepInForce}, current: {current, keepInForce}, outdated: {current, keepInForce}},
		settledForStart:    {unknown: {current, adoptUncertain}, provisional: {current, adoptUncertain}, current: {current, adopt}, outdated: {current, adopt}},
		settledAfterStart:  {unknown: {current, adoptUncertain}, provisional: {current, adoptUncertain}, current: {outdated, holdNext}, outdated: {outdated, holdNext}},
	}
}
