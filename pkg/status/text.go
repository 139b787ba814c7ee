// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText prints the report for a person.
func (r Report) WriteText(w io.Writer, now time.Time) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if name != "" {
			name += ":"
		}
		fmt.Fprintf(tw, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	row("State", "%s (%s=%s for %s)", r.Condition().Reason, r.Condition().Type, r.Condition().Status, Age(now.Sub(r.Condition().LastTransitionTime)))
	row("Message", "%s", r.Condition().Message)
	for _, v := range r.VIPs {
		row("API VIP", "%v %s", v.Address, v.State)
	}
	row("Table", "%s", r.Table.describe())
	for _, u := range r.Upstreams {
		row("Upstream", "%s", u.describe(now))
	}
	row("Configuration", "%s", r.Config.describe())
	for problem := range strings.Lines(r.Config.Error) {
		row("", "%s", strings.TrimSuffix(problem, "\n"))
	}
	row("Challenges", "%s", r.Challenges.describe())
	if err := tw.Flush(); err != nil {
		return err
	}
	return r.writeChallenges(w, now)
}

func (r Report) writeChallenges(w io.Writer, now time.Time) error {
	if len(r.Challenges.Recent) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "\nAGE\tSTATUS\tMS\tHOST\tTOKEN\tCLIENT\tUPSTREAM\tDETAIL")
	for _, c := range r.Challenges.Recent {
		fmt.Fprintf(tw, "%s\t%s\t%.1f\t%s\t%s\t%s\t%s\t%s\n",
			Age(now.Sub(c.Time)), outcome(c.Status), c.DurationMS, oneLine(c.Host),
			c.TokenPrefix+"…", c.Client, c.Upstream, oneLine(c.Detail))
	}
	return tw.Flush()
}

func (t Table) describe() string {
	switch {
	case t.Error != "":
		return "unknown: " + t.Error
	case !t.Present:
		return "absent"
	case !t.Owned:
		return "present, but not this process's"
	}
	if len(t.Elements) == 0 {
		return "inet http01-proxyd present, empty: no API VIP is here"
	}
	names := make([]string, len(t.Elements))
	for i, e := range t.Elements {
		names[i] = e.String()
	}
	return fmt.Sprintf("inet http01-proxyd present, leads port 80 of %s to port %d", strings.Join(names, ", "), t.Port)
}

func (u Upstream) describe(now time.Time) string {
	if u.Reachable {
		return fmt.Sprintf("%v reachable, looked at %s ago", u.Address, Age(now.Sub(u.Checked)))
	}
	if u.Checked.IsZero() {
		return fmt.Sprintf("%v not tried yet", u.Address)
	}
	return u.Error
}

func (c Config) describe() string {
	switch {
	case c.Error != "" && c.Source == "none":
		return "none in force: " + c.Path + " is refused"
	case c.Error != "":
		return "the last good one in force: " + c.Path + " is refused"
	case c.Source == "default":
		return "defaults (no " + c.Path + ")"
	default:
		return c.Path
	}
}

// describe names what was refused, reason by reason.
func (c Challenges) describe() string {
	parts := []string{fmt.Sprintf("%d forwarded", c.Total)}
	for _, reason := range slices.Sorted(maps.Keys(c.Refused)) {
		parts = append(parts, fmt.Sprintf("%d refused as %s", c.Refused[reason], reason))
	}
	return strings.Join(parts, ", ")
}
