// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// HostReport is the report of one host.
type HostReport struct {
	Name      string
	Version   string
	Condition report.Condition // the zero value: the host has not answered
	VIPs      []report.VIP
	VIPTests  []report.VIPTest // of VIPs that other hosts hold; their texts are not used
	Problem   string           // the reason why there is no report
	// Remediation is a sentence about Problem; empty: the general one.
	Remediation string
	Observed    time.Time // time of the query, by this machine's clock; zero if unknown
	Reported    time.Time // time in the report, by the host's clock; zero if missing
}

// reasonForm is the grammar of a condition's reason in Kubernetes (metav1.Condition),
// and maxReason its maximal length.
var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

const maxReason = 1024

// Limits of the other fields, far above real values.
const (
	maxVersion = 256
	maxState   = 32
	maxVIPs    = 100
)

// Parse reads the output of `http01-proxyd status -o json`. It ignores unknown fields
// of other versions. A host is not trusted: its text is limited and printable.
func Parse(name string, text []byte) (HostReport, error) {
	var parsed struct {
		Kind       string             `json:"kind"`
		Message    string             `json:"message"` // of an error
		Time       time.Time          `json:"time"`
		Version    string             `json:"version"`
		Conditions []report.Condition `json:"conditions"`
		VIPs       []report.VIP       `json:"vips"`
		VIPTests   []report.VIPTest   `json:"vipTests"` // missing in earlier versions
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return HostReport{}, fmt.Errorf("not a report of the service: %w", err)
	}
	switch {
	case parsed.Kind == "Error":
		return HostReport{}, errors.New(printable.Truncate(parsed.Message, report.MaxMessage))
	case parsed.Kind != "" && parsed.Kind != "Status":
		return HostReport{}, fmt.Errorf("not a report of the service, but of the kind %.100q", parsed.Kind)
	case len(parsed.VIPs) > maxVIPs || len(parsed.VIPTests) > maxVIPs:
		return HostReport{}, fmt.Errorf(
			"not a report of the service: %d VIPs and %d tests of VIPs", len(parsed.VIPs), len(parsed.VIPTests))
	}
	h := HostReport{
		Name: name, Version: printable.Truncate(parsed.Version, maxVersion),
		Condition: report.Report{Conditions: parsed.Conditions}.Condition(), VIPs: parsed.VIPs,
		VIPTests: parsed.VIPTests, Reported: parsed.Time,
	}
	h.Condition.Message = printable.Truncate(h.Condition.Message, report.MaxMessage)
	for i, v := range h.VIPs {
		if !v.Address.IsValid() {
			return HostReport{}, errors.New("not a report of the service: a VIP without its address")
		}
		management := ""
		if v.Management == report.ManagementBGP {
			management = report.ManagementBGP // another value is one of a newer version
		}
		h.VIPs[i] = report.VIP{
			Management: management, Address: v.Address.Unmap().WithZone(""), Family: printable.Family(v.Address),
			State: report.VIPState(printable.Truncate(string(v.State), maxState)), Since: v.Since,
		}
	}
	if reason := h.Condition.Reason; reason != "" && (len(reason) > maxReason || !reasonForm.MatchString(string(reason))) {
		return HostReport{}, fmt.Errorf("not a report of the service: a condition with the reason %.100q", reason)
	}
	switch h.Condition.Status {
	case "True", "False":
		if h.Condition.Reason == "" {
			return HostReport{}, errors.New(
				"not a report of the service: its condition " + report.ConditionType + " has no reason")
		}
	default:
		if h.Condition.Reason == "" {
			return HostReport{}, errors.New("not a report of the service: it has no condition " + report.ConditionType)
		}
		h.Condition.Status = "Unknown"
	}
	return h, nil
}

// answered reports whether the host has a report.
func (h HostReport) answered() bool {
	return h.Condition.Status == "True" || h.Condition.Status == "False"
}

// ready reports whether the host would serve a VIP that it holds.
func (h HostReport) ready() bool { return h.Condition.Status == "True" }

// vip returns a VIP on the host, empty if the host does not know it.
func (h HostReport) vip(vip netip.Addr) report.VIP {
	i := slices.IndexFunc(h.VIPs, func(v report.VIP) bool { return v.Address == vip })
	if i < 0 {
		return report.VIP{}
	}
	return h.VIPs[i]
}

// since returns the time of the host's last transition.
func (h HostReport) since() time.Time {
	if h.Condition.LastTransitionTime.IsZero() {
		return h.Observed
	}
	return h.Condition.LastTransitionTime
}

// vipSince returns when the state of a VIP has changed, or else the host's last
// transition.
func (h HostReport) vipSince(vip netip.Addr) time.Time {
	if since := h.vip(vip).Since; !since.IsZero() {
		return since
	}
	return h.since()
}

// problemText describes a host that is not ready.
func (h HostReport) problemText() string {
	switch {
	case h.Problem != "":
		return h.Name + ": " + h.Problem
	case h.Condition.Message != "":
		return h.Name + ": " + h.Condition.Message
	}
	return h.Name + ": " + string(h.Condition.Reason)
}
