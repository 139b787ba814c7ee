// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// Report is what all checks found, in the order of the catalogue.
type Report struct {
	Host       string      `json:"host"`
	Outcome    Outcome     `json:"outcome"`          // the worst
	Summary    string      `json:"summary"`          // one sentence
	Advice     []string    `json:"advice,omitempty"` // what to do next, a sentence or two each
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

// withoutConsequences leaves out what is a consequence of something else that was found. What
// is itself a consequence causes nothing more.
func withoutConsequences(results []Result) []Result {
	found := make(map[findings.ID]string) // by which check
	forEachFinding(results, func(r Result, f findings.Finding) { found[f.ID] = r.Name })
	roots := maps.Clone(found)
	forEachFinding(results, func(_ Result, f findings.Finding) {
		if causeCheck(f, found) != "" {
			delete(roots, f.ID)
		}
	})
	out := slices.Clone(results)
	for i, r := range results {
		out[i] = r.withoutCausedBy(roots)
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

// causeCheck is the check that has found what a finding follows from, empty when
// none has.
func causeCheck(f findings.Finding, found map[findings.ID]string) string {
	for _, cause := range f.CausedBy {
		if check := found[cause]; check != "" {
			return check
		}
	}
	return ""
}

// withoutCausedBy is the result without what follows from these findings.
func (r Result) withoutCausedBy(roots map[findings.ID]string) Result {
	why := ""
	kept := slices.DeleteFunc(slices.Clone(r.Findings), func(f findings.Finding) bool {
		check := causeCheck(f, roots)
		if check != "" {
			why = check
		}
		return check != ""
	})
	if why == "" {
		return r
	}
	next := findingsResult(kept, "")
	if len(kept) == 0 {
		next = skippedResult("it follows from what the check %q has found", why)
	}
	next.Name, next.DurationMs, next.NotChecked = r.Name, r.DurationMs, r.NotChecked
	return next
}

// newReport is the report of these results and of the way of a challenge, if one was
// followed.
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
	r.Summary = fmt.Sprintf("%s, by %s", h.headline(results, problems, warnings, challengeFails(hops)), countNoun(len(results)-skipped, "check"))
	if skipped > 0 {
		r.Summary += fmt.Sprintf("; %d could not look, or had nothing to look at (-)", skipped)
	}
	r.Summary += "."
	if challengeFails(hops) {
		r.Summary += " The challenge does not get through: see where it ends (✗)."
	}
	if !h.privileged {
		r.Advice = []string{"Run it as root to have everything looked at."}
	}
	return r
}

func countNoun(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// notApplicableReport is the report of a host that has nothing to do with the API's VIPs.
func (h *host) notApplicableReport() Report {
	const onMasters = "oc debug node/MASTER -- chroot /host http01-proxyd check"
	r := Report{Host: h.name, Outcome: NotApplicable, Checks: []Result{}}
	if errors.Is(h.vipsErr, errWorker) {
		r.Summary = fmt.Sprintf("Nothing to check: %s is a worker, and the API's virtual IP is kept on the masters.", h.name)
		r.Advice = []string{
			fmt.Sprintf("Here %s has ingress VIPs alone, and no static pod in %s is the API server's: for a worker that is as it should be.",
				h.config.VIPs.KeepalivedConfig, h.ManifestDir),
			"To check the cluster, run this on its masters, for example: " + onMasters,
		}
		return r
	}
	r.Summary = fmt.Sprintf("Nothing to check: %s is not a cluster node with virtual IPs.", h.name)
	r.Advice = []string{
		"http01-proxyd works on the masters of a bare-metal OpenShift cluster, where keepalived keeps the virtual IP of the API. " +
			fmt.Sprintf("Here is no %s and no %s, and %s gives no VIPs, and MicroShift is not here: for a host of another kind that is as it should be.",
				h.config.VIPs.KeepalivedConfig, keepalived.StaticPodPath(h.ManifestDir), h.ConfigPath),
		"To check a cluster, run this on its masters, for example: " + onMasters,
		"Where something else than keepalived keeps the VIPs, name them as vips.api and vips.ingress in " + h.ConfigPath + ".",
	}
	return r
}
