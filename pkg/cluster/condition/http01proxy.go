// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"time"

	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// AggregateHTTP01Proxy combines the reports of all hosts into the conditions Ready and
// Degraded of an HTTP01Proxy. Ready is the condition that Aggregate returns. Degraded is
// also True while all VIPs are served, if a host could not serve one.
func AggregateHTTP01Proxy(hosts []HostReport, now time.Time) []report.Condition {
	hosts = sortedByName(hosts)
	ready := evaluate(hosts)
	return []report.Condition{
		newCondition(operatorv1alpha1.ConditionReady, hosts, ready, now),
		newCondition(operatorv1alpha1.ConditionDegraded, hosts, degraded(hosts, ready), now),
	}
}

// degraded returns the result for the condition Degraded. A host that starts, or that
// the administrator has disabled, is not degraded.
func degraded(hosts []HostReport, ready result) result {
	isFailure := func(reason report.Reason) bool { return reason != report.Disabled && reason != report.Starting }
	failing := filter(hosts,
		func(h HostReport) bool { return h.answered() && !h.ready() && isFailure(h.Condition.Reason) })
	switch {
	case ready.status == "False" && isFailure(ready.reason):
		return result{"True", ready.reason, ready.message, ready.since}
	case len(failing) > 0:
		return result{"True", mostSevere(failing).Condition.Reason, nil, latest(failing, HostReport.since)}
	case ready.status == "Unknown":
		return ready
	}
	return result{"False", ready.reason, ready.message, latest(hosts, HostReport.since)}
}
