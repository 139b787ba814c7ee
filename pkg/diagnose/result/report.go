// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Report is the result of all checks, in the order of the list.
type Report struct {
	Host string `json:"host"` // name of the host
	// The worst of all checks, which alone decides the marks and the exit code. incomplete: no problem was found,
	// and necessary checks did not run or end; nothing: the host cannot hold the API's VIPs.
	Outcome report.CheckOutcome `json:"outcome"`

	Held []netip.Addr `json:"held"` // API VIPs of this host
	// Management is BGP if several hosts hold a VIP at once, and empty if one host does.
	Management string `json:"management,omitempty"`

	Summary    string   `json:"summary"`    // one sentence
	Advice     []string `json:"advice"`     // next steps, one or two sentences each
	Incomplete []string `json:"incomplete"` // names of necessary checks that did not run or end, or not completely
	Checks     []Result `json:"checks"`     // in the order of the text
	Trace      []Step   `json:"trace"`      // of the challenge of --token; empty without it
	DurationMs float64  `json:"durationMs"` // duration of the whole run
}

// Document is the report of a host as a document.
type Document struct {
	report.Header
	Report
}

// Document returns the report with its header, without null lists.
func (r Report) Document() Document {
	r.Advice, r.Incomplete, r.Trace = append([]string{}, r.Advice...), append([]string{},
		r.Incomplete...), append([]Step{}, r.Trace...)
	r.Checks, r.Held = append([]Result{}, r.Checks...), append([]netip.Addr{}, r.Held...)
	for i, c := range r.Checks {
		r.Checks[i].Findings = append([]findings.Finding{}, c.Findings...)
	}
	return Document{report.NewHeader("Check"), r}
}

// withoutConsequences removes findings that another finding explains. A finding that is
// explained itself explains no others.
func withoutConsequences(results []Result) []Result {
	found := make(map[findings.ID]string) // by which check
	forEachFinding(results, func(r Result, f findings.Finding) { found[f.ID] = r.Name })
	causes := maps.Clone(found)
	forEachFinding(results, func(_ Result, f findings.Finding) {
		if causeCheck(f, found) != "" {
			delete(causes, f.ID)
		}
	})
	out := slices.Clone(results)
	for i, r := range results {
		out[i] = r.withoutCausedBy(causes)
	}
	return out
}

func forEachFinding(results []Result, do func(Result, findings.Finding)) {
	for _, r := range results {
		for _, f := range r.Findings {
			do(r, f)
		}
	}
}

// causeCheck is the check that detected a cause of a finding; empty if none did.
func causeCheck(f findings.Finding, found map[findings.ID]string) string {
	for _, cause := range f.CausedBy {
		if check := found[cause]; check != "" {
			return check
		}
	}
	return ""
}

// withoutCausedBy is the result without the findings that these findings explain.
func (r Result) withoutCausedBy(causes map[findings.ID]string) Result {
	why := ""
	remaining := slices.DeleteFunc(slices.Clone(r.Findings), func(f findings.Finding) bool {
		check := causeCheck(f, causes)
		if check != "" {
			why = check
		}
		return check != ""
	})
	if why == "" {
		return r
	}
	next := Of(remaining...)
	if len(remaining) == 0 {
		next = Nothing("explained by the check %q", why)
	}
	return next.Replacing(r)
}

// Conditions are what the results do not contain about a run.
type Conditions struct {
	Host       string
	Held       []netip.Addr // API VIPs
	Management string       // as in the report
	Privileged bool
	Selected   bool // only some checks ran, all of which are necessary
}

// NewReport is the report of these results and of the trace of a challenge, if there is
// one.
func NewReport(c Conditions, results []Result, steps []Step) Report {
	results = withoutConsequences(results)
	failing := slices.IndexFunc(steps, func(s Step) bool { return s.Outcome == report.CheckProblem })
	fails := failing >= 0
	incomplete := c.incompleteChecks(results)
	r := Report{
		Host: c.Host, Held: c.Held, Management: c.Management, Outcome: report.CheckSkipped, Incomplete: incomplete,
		Checks: results, Trace: steps,
	}
	if fails {
		r.Outcome = report.CheckProblem
	} else if len(incomplete) > 0 {
		r.Outcome = report.CheckIncomplete
	}
	skipped := 0
	var levels []findings.Level
	for _, c := range results {
		r.Outcome = report.Worst(r.Outcome, c.Outcome)
		if c.Outcome == report.CheckSkipped {
			skipped++
		}
		for _, f := range c.Findings {
			levels = append(levels, f.Level)
		}
	}
	r.Summary = fmt.Sprintf("%s (%s", r.headline(report.CountLevels(levels), fails), report.Count(len(results)-skipped, "check"))
	if skipped > 0 {
		r.Summary += fmt.Sprintf(", %d skipped", skipped)
	}
	r.Summary += ")."
	if fails {
		r.Summary += fmt.Sprintf(" The challenge fails at the step %v.", steps[failing])
	}
	if !c.Privileged {
		r.Advice = []string{"Run it as root to include all checks."}
	}
	return r
}

// essentialChecks are the checks that are necessary to conclude that challenges
// succeed.
func essentialChecks() []string {
	return []string{"vips", "vip-holder", "ruleset", "ingress", "route", "dns", "self-check", "certificate"}
}

// incompleteChecks are the necessary checks that could not run, or not completely, and all
// that did not end.
func (c Conditions) incompleteChecks(results []Result) (names []string) {
	for _, r := range results {
		ended := r.Outcome != report.CheckSkipped || r.NotChecked == ""
		if r.Incomplete && (c.Selected || !ended || slices.Contains(essentialChecks(), r.Name)) {
			names = append(names, r.Name)
		}
	}
	return names
}

// headline is the start of the summary. It reports no problem only if all necessary
// checks ran.
func (r Report) headline(found string, fails bool) string {
	switch {
	case found != "" && r.Outcome == report.CheckIncomplete:
		return fmt.Sprintf("%s on %s, and essential checks are incomplete: %s", found, r.Host,
			strings.Join(r.Incomplete, ", "))
	case found != "":
		return found + " on " + r.Host
	case fails:
		return "The challenge fails, but no cause was found on " + r.Host
	case len(r.Incomplete) > 0:
		return fmt.Sprintf("No problem was found on %s, but essential checks are incomplete: %s", r.Host,
			strings.Join(r.Incomplete, ", "))
	default:
		return "No problems on " + r.Host
	}
}
