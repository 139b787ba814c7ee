// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// essentialChecks are the checks that are necessary to conclude that challenges
// succeed.
func essentialChecks() []string {
	return []string{"vip-holder", "ruleset", "ingress", "route", "dns", "self-check", "certificate"}
}

// proxyChecks are the essential checks about the proxy. A MicroShift host whose router
// listens on port 80 itself needs no proxy.
func proxyChecks() []string { return []string{"ruleset", "dns", "self-check"} }

// headline is the start of the summary. It reports no problem only if all essential
// checks ran.
func (h *host) headline(results []Result, problems, warnings int, lost bool) string {
	var found []string
	if problems > 0 {
		found = append(found, countNoun(problems, "problem"))
	}
	if warnings > 0 {
		found = append(found, countNoun(warnings, "warning"))
	}
	left := h.uncheckedEssentials(results)
	switch {
	case len(found) > 0:
		return strings.Join(found, " and ") + " on " + h.name
	case lost:
		return "The challenge fails, but no cause was found on " + h.name
	case len(left) > 0:
		return fmt.Sprintf("No problem was found on %s, but essential checks are incomplete: %s", h.name, strings.Join(left, ", "))
	default:
		return "No problems on " + h.name
	}
}

// uncheckedEssentials are the essential checks that could not run, or not completely.
func (h *host) uncheckedEssentials(results []Result) []string {
	var left []string
	doorless := h.microShiftState.active && len(h.servedVIPs()) == 0
	for _, r := range results {
		if doorless && slices.Contains(proxyChecks(), r.Name) {
			continue
		}
		if slices.Contains(essentialChecks(), r.Name) && (r.Outcome == Skipped || r.NotChecked != "") {
			left = append(left, r.Name)
		}
	}
	return left
}

// challengeFails reports whether the traced challenge fails.
func challengeFails(hops []TraceStep) bool {
	return slices.ContainsFunc(hops, func(h TraceStep) bool { return h.Outcome == Problem })
}
