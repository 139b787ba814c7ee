// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"strings"
	"testing"
)

// TestNewReplacesPlaceholders: values without a placeholder are ignored, and
// placeholders without a value stay visible.
func TestNewReplacesPlaceholders(t *testing.T) {
	t.Parallel()
	f := New(ServiceNotRunning, Values{"state": "stopped", "other": "x"})
	if want := "The service is not running: stopped"; f.Message != want {
		t.Errorf("message %q, want %q", f.Message, want)
	}
	if f := New(ServiceNotRunning, nil); f.Message != "The service is not running: {state}" {
		t.Errorf("message %q", f.Message)
	}
}

// TestNewUnknownID: an unknown ID is reported as a problem instead of ending the check.
func TestNewUnknownID(t *testing.T) {
	t.Parallel()
	if f := New("unheard-of", nil); f.ID != "unheard-of" || f.Level != Problem || f.Message != "unheard-of" {
		t.Errorf("finding %+v", f)
	}
	if ReplyForCause("unheard-of") != ReplyForCause("response-malformed") {
		t.Error("an unknown cause has no reply")
	}
}

// TestWithCopies: the values that a finding is derived from stay unchanged.
func TestWithCopies(t *testing.T) {
	t.Parallel()
	base := Values{"a": "1"}
	if more := base.With("b", "2"); more["a"] != "1" || more["b"] != "2" || len(base) != 1 {
		t.Errorf("%v from %v", more, base)
	}
	if got := Values(nil).With("b", "2"); got["b"] != "2" {
		t.Errorf("from nil: %v", got)
	}
}

// TestTextForm: messages are sentences without a final full stop, because details may
// follow; remediations are whole sentences.
func TestTextForm(t *testing.T) {
	t.Parallel()
	for _, e := range All() {
		if strings.HasSuffix(e.Message, ".") {
			t.Errorf("%s: the message ends with a full stop: %q", e.ID, e.Message)
		}
		if !strings.HasSuffix(e.Remediation, ".") {
			t.Errorf("%s: the remediation is not a sentence: %q", e.ID, e.Remediation)
		}
		if !strings.HasSuffix(e.Symptom, ".") {
			t.Errorf("%s: the symptom is not a sentence: %q", e.ID, e.Symptom)
		}
	}
}
