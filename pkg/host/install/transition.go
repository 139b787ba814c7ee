// SPDX-License-Identifier: Apache-2.0

package install

import "slices"

// Event is what has happened since the last state.
type Event int

// The events.
const (
	Began    Event = iota // a run begins, also after a power loss
	Swapped               // the required binary is in its place
	Restored              // the previous binary is in its place
	Ready                 // the service has become ready
	NotReady              // the service cannot become ready
	Stopped               // the service was stopped before it became ready
	Disabled              // the service is disabled, and stays so
)

// Observation is the host at the time of an event.
type Observation struct {
	Image    string // which the MachineConfig requires
	Checksum string // of its binary, in the MachineConfig
	// Unlisted: the MachineConfig has checksums, but none for this machine.
	Unlisted bool
	// The checksums of the files; empty without a file.
	Program, Previous, Candidate string
	Serving                      bool // the service is active with the installed binary
	ByTimer                      bool // the timer has started the run
	JustRejected                 bool // the image was rejected less than 60 s ago
}

// Action is what a run does next.
type Action int

// The actions. Those from Pull on end the run.
const (
	SwapCandidate Action = iota
	SwapPrevious
	RestorePrevious
	StartService

	Pull
	ReportInstalled
	ReportUnchanged
	ReportKept          // the image was rejected in an earlier run
	ReportDisabled      // the service is disabled
	ReportRejected      // the image is rejected, and the previous binary serves
	ReportRejectedAgain // the same, in the next runs
	ReportNotReady
	ReportNeitherReady
	ReportStopped
	ReportMismatch   // the candidate has another checksum
	ReportUnexpected // the event cannot happen in this phase
)

func (a Action) ends() bool { return a >= Pull }

// Next returns the state after an event, and the action that follows.
func (s State) Next(e Event, o Observation) (State, Action) {
	switch e {
	case Began:
		return s.recovered(o).require(o)
	case Swapped:
		if s.Phase == Swapping {
			return s.in(Starting), StartService
		}
	case Restored:
		if s.Phase == Restoring {
			return s.in(Restarting), StartService
		}
	case Ready, NotReady, Stopped, Disabled:
		switch s.Phase {
		case Settled, Starting:
			return s.afterStart(e, o)
		case Restarting, Rejected:
			return s.afterRejection(e)
		case Swapping, Restoring:
		}
	}
	return s, ReportUnexpected
}

func (s State) in(p Phase) State {
	s.Phase = p
	return s
}

// recovered is the state that the disk confirms.
func (s State) recovered(o Observation) State {
	proven := o.Program == "" || o.Program == s.Proven
	switch s.Phase {
	case Swapping, Starting:
		if proven {
			return s.in(Settled)
		}
		if o.Program != s.Binary.SHA256 {
			s.Binary = Binary{SHA256: o.Program}
		}
		return s.in(Starting)
	case Restoring:
		switch {
		case o.Program != s.Binary.SHA256:
			return s.in(Rejected)
		case o.Previous == "":
			return s.in(Starting)
		}
	case Restarting:
		return s.in(Rejected)
	case Settled, Rejected:
		// The binary may have been installed in another way, such as a copy by hand.
		if o.Serving {
			s.Proven = o.Program
		}
	}
	return s
}

// require returns the first action of a run.
func (s State) require(o Observation) (State, Action) {
	if s.Phase == Restoring {
		return s, RestorePrevious
	}
	if s.rejects(o) {
		if o.JustRejected { // the machine-config-daemon starts the run once for each changed unit
			return s, ReportRejectedAgain
		}
		return s, StartService
	}
	required := s.required(o)
	switch {
	case o.Unlisted:
		return s, Pull // the script reports it
	case required != "" && o.Program == required:
		return s.keepInstalled(o), StartService
	case required != "" && o.Previous == required:
		s.Binary = Binary{o.Image, o.Previous}
		return s.in(Swapping), SwapPrevious
	case o.Candidate == "":
		return s, Pull
	case required != "" && o.Candidate != required:
		return s, ReportMismatch
	case o.Program == o.Candidate:
		return s.keepInstalled(o), StartService
	default:
		s.Binary = Binary{o.Image, o.Candidate}
		return s.in(Swapping), SwapCandidate
	}
}

// rejects reports whether this run must not try the image again, because it was rejected.
func (s State) rejects(o Observation) bool {
	return s.Phase == Rejected && s.Binary.Image == o.Image && (o.JustRejected || o.ByTimer)
}

// required is the checksum of the required binary; empty if it is not known before a pull.
func (s State) required(o Observation) string {
	if o.Checksum != "" {
		return o.Checksum
	}
	return s.pulledBefore(o.Image)
}

// anotherMaySucceed reports whether another binary may succeed after an error in this run: the
// previous one, or that of the image. Otherwise a release with such an error would prevent its own
// upgrade. A pull is useless if it returns the binary that is installed and was proven, or a
// rejected one.
func (s State) anotherMaySucceed(o Observation) bool {
	settled := s.Phase == Settled && o.Program != "" && o.Program == s.required(o)
	return !settled && !s.rejects(o)
}

// keepInstalled is the state before a start with the binary that is installed.
func (s State) keepInstalled(o Observation) State {
	s.Binary = Binary{o.Image, o.Program}
	if o.Program == s.Proven {
		return s.in(Settled)
	}
	return s.in(Starting)
}

// afterStart is the result of a start with the required binary.
func (s State) afterStart(e Event, o Observation) (State, Action) {
	switch e {
	case Ready:
		s = s.recordPull()
		if s.Phase == Settled {
			return s, ReportUnchanged
		}
		s.Proven = s.Binary.SHA256
		return s.in(Settled), ReportInstalled
	case NotReady:
		if s.Phase == Starting && o.Previous != "" {
			return s.in(Restoring), RestorePrevious
		}
		return s, ReportNotReady
	case Disabled:
		return s.recordPull(), ReportDisabled
	default:
		return s, ReportStopped
	}
}

// afterRejection is the result of a start with the previous binary. The state has the rejected one.
func (s State) afterRejection(e Event) (State, Action) {
	restored := s.Phase == Restarting
	switch {
	case e == NotReady && restored:
		s.Binary = Binary{SHA256: s.Proven} // the next run tries the image again
		return s.in(Settled), ReportNeitherReady
	case e == NotReady:
		return s, ReportNotReady
	case e == Stopped:
		return s.in(Rejected), ReportStopped
	case e == Disabled:
		return s.in(Rejected), ReportDisabled
	case restored:
		return s.in(Rejected), ReportRejected
	default:
		return s, ReportKept
	}
}

// pulledBefore is the checksum that this image had when it was pulled by digest.
func (s State) pulledBefore(image string) string {
	for _, b := range s.Pulled {
		if b.Image == image {
			return b.SHA256
		}
	}
	return ""
}

func (s State) recordPull() State {
	if !s.Binary.byDigest() || s.pulledBefore(s.Binary.Image) == s.Binary.SHA256 {
		return s
	}
	others := slices.DeleteFunc(slices.Clone(s.Pulled), func(b Binary) bool { return b.Image == s.Binary.Image })
	all := append([]Binary{s.Binary}, others...)
	s.Pulled = all[:min(len(all), maxPulled)]
	return s
}
