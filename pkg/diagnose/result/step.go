// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Step is one step in the trace of a challenge.
type Step struct {
	Step       string              `json:"step"`         // dns, connect, proxy, ingress, solver or cert-manager
	To         string              `json:"to,omitempty"` // name or address of the request
	Outcome    report.CheckOutcome `json:"outcome"`      // ok or problem
	Text       string              `json:"text"`         // what was observed
	DurationMs float64             `json:"durationMs,omitempty"`
}

// NewStep is a step that succeeded or failed.
func NewStep(name, to string, ok bool, took time.Duration, format string, args ...any) Step {
	s := Step{
		Step: name, To: to, Outcome: report.CheckOK, Text: fmt.Sprintf(format, args...), DurationMs: Milliseconds(took),
	}
	if !ok {
		s.Outcome = report.CheckProblem
	}
	return s
}

// String names the step and the address of its request.
func (s Step) String() string {
	if s.To == "" {
		return strconv.Quote(s.Step)
	}
	return fmt.Sprintf("%q (%s)", s.Step, s.To)
}

// Milliseconds is a duration in the unit of the report.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
