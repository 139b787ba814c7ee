// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// essentialChecks are the checks without which nobody can say that challenges succeed.
func essentialChecks() []string {
	return []string{"vip-holder", "ruleset", "ingress", "route", "dns", "self-check", "certificate"}
}

// proxyChecks are those of them that are about a front door: a MicroShift whose router
// has port 80 itself needs none.
func proxyChecks() []string { return []string{"ruleset", "dns", "self-check"} }

// headline is what the summary begins with: all is well only where all that is
// essential was looked at.
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
		return "Nothing was found on " + h.name + " for which the challenge does not get through"
	case len(left) > 0:
		return fmt.Sprintf("Nothing wrong was found on %s, where not all that matters could be looked at (%s)", h.name, strings.Join(left, ", "))
	default:
		return "All is well on " + h.name
	}
}

// notChecked are the essential checks that could not look, or not at everything.
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

// challengeFails reports whether a challenge that was followed does not get through.
func challengeFails(hops []TraceStep) bool {
	return slices.ContainsFunc(hops, func(h TraceStep) bool { return h.Outcome == Problem })
}
