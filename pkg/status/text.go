// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText prints the report for a person.
func (r Report) WriteText(w io.Writer, now time.Time) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s:\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	row("State", "%s (%s=%s for %s)", r.Condition.Reason, r.Condition.Type, r.Condition.Status, Age(now.Sub(r.Condition.LastTransitionTime)))
	row("Message", "%s", r.Condition.Message)
	for _, v := range r.VIPs {
		row("API VIP", "%v %s", v.Address, v.State)
	}
	row("Table", "%s", r.Table.describe())
	for _, u := range r.Upstreams {
		row("Upstream", "%s", u.describe(now))
	}
	row("Configuration", "%s", r.Config.describe())
	row("Challenges", "%d forwarded, %d refused", r.Challenges.Total, r.Challenges.refusedTotal())
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
	vips := "no VIP"
	if len(t.Elements) > 0 {
		names := make([]string, len(t.Elements))
		for i, e := range t.Elements {
			names[i] = e.String()
		}
		vips = strings.Join(names, ", ")
	}
	return fmt.Sprintf("inet http01-proxyd present, leads port 80 of %s to port %d", vips, t.Port)
}

func (u Upstream) describe(now time.Time) string {
	if u.Reachable {
		return fmt.Sprintf("%v reachable %s ago", u.Address, Age(now.Sub(u.Checked)))
	}
	if u.Checked.IsZero() {
		return fmt.Sprintf("%v not tried yet", u.Address)
	}
	return fmt.Sprintf("%v unreachable: %s", u.Address, u.Error)
}

func (c Config) describe() string {
	s := c.Source
	if c.Path != "" {
		s += " " + c.Path
	}
	if c.Error != "" {
		s += ": " + c.Error
	}
	return s
}

func (c Challenges) refusedTotal() uint64 {
	var n uint64
	for _, v := range c.Refused {
		n += v
	}
	return n
}
