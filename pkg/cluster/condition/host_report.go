// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// HostReport is the report of one host.
type HostReport struct {
	Name      string
	Condition report.Condition // the zero value: the host did not answer
	Problem   string           // the reason why there is no report
	// Remediation is a sentence about Problem; empty: the general one.
	Remediation string
	Note        string    // why the end of the report is missing; empty if it is complete
	Observed    time.Time // time of the query, by this machine's clock; zero if unknown

	report.Report // its texts are not trusted: the writers make them printable
}

// reasonForm is the grammar of a condition's reason in Kubernetes (metav1.Condition), and shorter.
var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$`)

const (
	maxVIPs    = 100
	maxVersion = 100 // bytes
)

// Read reads the output of `http01-proxyd status -o json` of a host.
func Read(o nodes.Output) HostReport {
	h := HostReport{
		Name: o.Node, Report: nodes.Decode[report.Report](&o, "Status"), Note: o.Note, Observed: o.Received,
	}
	h.Condition = h.Report.Condition()
	if o.Problem == "" {
		switch {
		case !reasonForm.MatchString(string(h.Condition.Reason)):
			o.Reject("Status", fmt.Errorf("not a report of the service: no condition %s with a reason", report.ConditionType))
		case len(h.VIPs) > maxVIPs || len(h.VIPTests) > maxVIPs:
			o.Reject("Status", fmt.Errorf("not a report of the service: %d VIPs, %d tests", len(h.VIPs), len(h.VIPTests)))
		}
	}
	if o.Problem != "" {
		return HostReport{Name: o.Node, Problem: o.Problem, Remediation: o.Remediation, Observed: o.Received}
	}
	h.Version = printable.Truncate(h.Version, maxVersion)
	h.Condition.Message = printable.Truncate(h.Condition.Message, report.MaxMessage)
	if h.Condition.Status != "True" && h.Condition.Status != "False" {
		h.Condition.Status = "Unknown"
	}
	return h
}

// answered reports whether the host sent a report.
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

// vipSince returns when the state of a VIP changed, or else the host's last
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
