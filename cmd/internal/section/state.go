// SPDX-License-Identifier: Apache-2.0

package section

import (
	"cmp"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// State is what a status begins with.
type State struct {
	Level     Level // the worst of the condition and of the problems
	Headline  string
	Since     time.Time // when the reason of the condition changed; zero: unknown
	Condition report.Condition
	Problems  []report.ClusterProblem // problems before warnings
}

// HostState returns the state of a host, and of what others report about it.
func HostState(r report.Report, now time.Time, others ...report.ClusterProblem) State {
	problems := Problems(verdict.Problems(r, now))
	for _, p := range others { // such as a VIP that other nodes do not reach
		if !slices.ContainsFunc(problems, func(own report.ClusterProblem) bool { return own.ID == p.ID }) {
			problems = append(problems, p)
		}
	}
	since := r.StateSince
	if r.Condition().Status != "Unknown" { // otherwise it is the time of the query
		since = cmp.Or(since, r.Condition().LastTransitionTime)
	}
	return newState(r.Condition(), since, problems)
}

// ClusterState returns the state of a cluster.
func ClusterState(s report.ClusterStatus) State {
	since := s.Condition.LastTransitionTime
	if s.Condition.Status == "Unknown" { // the time of the query
		since = time.Time{}
	}
	return newState(s.Condition, since, s.Problems)
}

func newState(c report.Condition, since time.Time, problems []report.ClusterProblem) State {
	problems = slices.SortedStableFunc(slices.Values(problems),
		func(a, b report.ClusterProblem) int { return cmp.Or(cmp.Compare(a.Level, b.Level), compareCause(a, b)) })
	level := OfCondition(c)
	for _, p := range problems {
		level = Worse(level, OfProblem(p.Level))
	}
	return State{level, verdict.Headline(c, Levels(problems)), since, c, problems}
}

// compareCause sorts a stopped service first, because other problems may follow from it.
func compareCause(a, b report.ClusterProblem) int {
	stopped := string(findings.ServiceNotRunning)
	switch {
	case a.ID == b.ID:
		return 0
	case a.ID == stopped:
		return -1
	case b.ID == stopped:
		return 1
	}
	return 0
}

// Worse returns the worse one of two levels.
func Worse(a, b Level) Level {
	order := []Level{"", Neutral, Good, Warning, Bad}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Problems returns findings of a host in the form that is shown.
func Problems(found []findings.Finding) []report.ClusterProblem {
	all := []report.ClusterProblem{}
	for _, f := range found {
		all = append(all, verdict.Problem(f))
	}
	return all
}

// Command returns the command that comes first for a problem: one that fixes it, or one that finds or
// explains its cause.
func Command(p report.ClusterProblem) string {
	host, program := len(p.Nodes) == 0, "oc http01"
	if host {
		program = "http01-proxyd"
	}
	switch {
	case p.ID == string(findings.ServiceNotReady): // which has many causes
		return program + " check"
	case len(p.Commands) > 0:
		return p.Commands[0]
	case p.ID == string(findings.VIPUnreachableFromHere) && !host:
		return program + " check"
	}
	return program + " explain " + p.ID
}

// Levels returns the level of each problem.
func Levels(problems []report.ClusterProblem) (levels []string) {
	for _, p := range problems {
		levels = append(levels, p.Level)
	}
	return levels
}
