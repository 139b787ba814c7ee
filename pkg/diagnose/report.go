// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/discovery"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// Report is the result of all checks, in the order of the list.
type Report struct {
	Host       string      `json:"host"`
	Outcome    Outcome     `json:"outcome"`          // the worst of all
	Summary    string      `json:"summary"`          // one sentence
	Advice     []string    `json:"advice,omitempty"` // next steps, one or two sentences each
	Checks     []Result    `json:"checks"`
	Trace      []TraceStep `json:"trace,omitempty"` // of the challenge of --token
	DurationMs float64     `json:"durationMs"`
}

func worstOutcome(results []Result) Outcome {
	order := []Outcome{Skipped, OK, Warning, Problem}
	at := 0
	for _, r := range results {
		at = max(at, slices.Index(order, r.Outcome))
	}
	return order[at]
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
	next := findingsResult(remaining, "")
	if len(remaining) == 0 {
		next = skippedResult("explained by the check %q", why)
	}
	next.Name, next.DurationMs, next.NotChecked = r.Name, r.DurationMs, r.NotChecked
	return next
}

// newReport is the report of these results and of the trace of a challenge, if there is
// one.
func (h *host) newReport(results []Result, hops []TraceStep) Report {
	results = withoutConsequences(results)
	r := Report{Host: h.name, Outcome: worstOutcome(results), Checks: results, Trace: hops}
	if challengeFails(hops) {
		r.Outcome = Problem
	}
	problems, warnings, skipped := 0, 0, 0
	for _, c := range results {
		if c.Outcome == Skipped {
			skipped++
		}
		for _, f := range c.Findings {
			if f.Level == findings.Problem {
				problems++
			} else {
				warnings++
			}
		}
	}
	r.Summary = fmt.Sprintf("%s (%s", h.headline(results, problems, warnings, challengeFails(hops)), countNoun(len(results)-skipped, "check"))
	if skipped > 0 {
		r.Summary += fmt.Sprintf(", %d skipped", skipped)
	}
	r.Summary += ")."
	if challengeFails(hops) {
		r.Summary += " The challenge fails at the step marked ✗."
	}
	if !h.privileged {
		r.Advice = []string{"Run it as root to include all checks."}
	}
	return r
}

func countNoun(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// notApplicableReport is the report of a host that cannot hold the API's VIPs.
func (h *host) notApplicableReport() Report {
	const onControlPlane = "oc debug node/NODE -- chroot /host http01-proxyd check"
	r := Report{Host: h.name, Outcome: NotApplicable, Checks: []Result{}}
	if errors.Is(h.vipsErr, discovery.ErrWorker) {
		r.Summary = fmt.Sprintf("Nothing to check: %s is a worker, and only control-plane nodes hold the API's virtual IP.", h.name)
		r.Advice = []string{
			fmt.Sprintf("%s contains only ingress VIPs, and %s has no static pod of the API server. This is normal for a worker.",
				h.config.VIPs.KeepalivedConfig, h.ManifestDir),
			"To check the cluster, run this on its control-plane nodes, for example: " + onControlPlane,
		}
		return r
	}
	r.Summary = fmt.Sprintf("Nothing to check: %s is not a cluster node with virtual IPs.", h.name)
	r.Advice = []string{
		"http01-proxyd runs on the control-plane nodes of a bare-metal OpenShift cluster, where keepalived manages the virtual IP of the API. " +
			fmt.Sprintf("This host has no %s, no %s, no VIPs in %s and no MicroShift. This is normal for other hosts.",
				h.config.VIPs.KeepalivedConfig, keepalived.StaticPodPath(h.ManifestDir), h.ConfigPath),
		"To check a cluster, run this on its control-plane nodes, for example: " + onControlPlane,
		"If another program than keepalived manages the VIPs, set vips.api and vips.ingress in " + h.ConfigPath + ".",
	}
	return r
}
