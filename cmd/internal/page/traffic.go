// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// outcomeLevel is how serious an outcome is. A 404 alone is a warning: cert-manager's self-check
// gets it until the solver runs.
func outcomeLevel(o report.Outcome) level {
	switch o {
	case report.Answered:
		return good
	case report.NotFound, report.AnswerUnread:
		return warning
	case report.NoRoute, report.Redirected, report.OtherStatus, report.UpstreamError:
		return bad
	default:
		return neutral
	}
}

// outcomeRow is the requests with one outcome.
type outcomeRow struct {
	outcome  report.Outcome
	total    uint64
	byClient map[report.ClientKind]uint64
}

// outcomeRows returns the requests that were forwarded and those that were rejected, in
// display order.
func outcomeRows(r report.Report) (forwarded, rejected []outcomeRow) {
	rows := map[report.Outcome]*outcomeRow{}
	of := func(o report.Outcome) *outcomeRow {
		if rows[o] == nil {
			rows[o] = &outcomeRow{outcome: o, byClient: map[report.ClientKind]uint64{}}
		}
		return rows[o]
	}
	for _, c := range r.Traffic.Requests {
		if c.Count > 0 {
			of(c.Outcome).total += c.Count
			of(c.Outcome).byClient[c.ClientKind] += c.Count
		}
	}
	order := report.Outcomes()
	for _, rejection := range report.Rejections() {
		order = append(order, report.Outcome(rejection))
	}
	position := func(o report.Outcome) int {
		if i := slices.Index(order, o); i >= 0 {
			return i
		}
		return len(order)
	}
	names := slices.SortedFunc(maps.Keys(rows), func(a, b report.Outcome) int {
		return cmp.Or(cmp.Compare(position(a), position(b)), cmp.Compare(a, b))
	})
	for _, o := range names {
		if report.Rejection(o).Known() {
			rejected = append(rejected, *rows[o])
		} else {
			forwarded = append(forwarded, *rows[o])
		}
	}
	return forwarded, rejected
}

// clientKinds returns the kinds with a request, in display order.
func clientKinds(rows []outcomeRow) []report.ClientKind {
	found := map[report.ClientKind]bool{}
	for _, r := range rows {
		for kind := range r.byClient {
			found[kind] = true
		}
	}
	kinds := slices.DeleteFunc(report.ClientKinds(), func(k report.ClientKind) bool { return !found[k] })
	for _, k := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func requestTable(caption, title string, rows []outcomeRow, levelOf func(report.Outcome) level) element {
	kinds := clientKinds(rows)
	columns := []column{{title: title}, {title: "Meaning", prose: true}}
	for _, k := range kinds {
		columns = append(columns, column{title: string(k), numeric: true})
	}
	columns = append(columns, column{title: "Total", numeric: true}, column{title: "Share"})
	most := uint64(1)
	for _, r := range rows {
		most = max(most, r.total)
	}
	cells := make([]row, 0, len(rows))
	for _, r := range rows {
		line := row{mark(levelOf(r.outcome), string(r.outcome)), quoted(r.outcome.Meaning())}
		for _, k := range kinds {
			line = append(line, count(r.byClient[k]))
		}
		cells = append(cells, append(line, el("b", number(r.total)), shareBar(levelOf(r.outcome), float64(r.total)/float64(most))))
	}
	return table(caption, columns, cells)
}

// count is a number; zero is muted.
func count(n uint64) part {
	if n == 0 {
		return muted("0")
	}
	return number(n)
}

// shareBar repeats the number beside it as a length.
func shareBar(l level, share float64) element {
	return el("svg", class("share "+string(l)), attr("aria-hidden", "true"),
		el("rect", attr("width", percent(share)), attr("height", "100%")))
}

// addRequests describes the requests since the start of the service.
func (s *sections) addRequests(r report.Report) {
	forwarded, rejected := outcomeRows(r)
	contents := parts{}
	if len(forwarded) == 0 {
		contents = append(contents, el("p", class("empty"), text("No challenge has been forwarded since the start of the service.")))
	} else {
		contents = append(contents, requestTable("Forwarded to the ingress", "Outcome", forwarded, outcomeLevel), durationText(r.Traffic.Durations))
	}
	if len(rejected) > 0 {
		contents = append(contents, requestTable("Rejected by the proxy", "Reason", rejected, func(report.Outcome) level { return neutral }))
	}
	s.add("Requests and outcomes", contents)
}

// durationText describes the distribution of the durations.
func durationText(h report.Histogram) part {
	if h.Count == 0 {
		return parts{}
	}
	return el("p", class("note"), text(fmt.Sprintf("Duration of forwarded requests: half of them within %s, 95 %% within %s, mean %s.",
		report.Milliseconds(quantile(h, 0.5)), report.Milliseconds(quantile(h, 0.95)),
		report.Milliseconds(time.Duration(h.Sum/float64(h.Count)*float64(time.Second))))))
}

// quantile returns the upper bound of the bucket with this quantile.
func quantile(h report.Histogram, q float64) time.Duration {
	left := q * float64(h.Count)
	buckets := slices.Sorted(maps.Keys(h.Buckets))
	for _, b := range buckets {
		left -= float64(h.Buckets[b])
		if left <= 0 {
			return report.BucketUpperBound(b)
		}
	}
	return report.BucketUpperBound(report.LastBucket)
}

// addChallenges lists the last challenges, newest first.
func (s *sections) addChallenges(all []report.RecentChallenge) {
	if len(all) == 0 {
		return
	}
	columns := []column{
		{title: "Time (UTC)"},
		{title: "Result"},
		{title: "Duration", numeric: true},
		{title: "Host and token"},
		{title: "Client"},
		{title: "VIP and ingress"},
		{title: "Detail", prose: true},
	}
	rows := make([]row, 0, len(all))
	for _, c := range slices.Backward(all) {
		status := "no response"
		if c.Status != 0 {
			status = strconv.Itoa(c.Status)
		}
		rows = append(rows, row{
			moment(c.Time),
			stacked(mark(outcomeLevel(c.Outcome), status), muted(string(c.Outcome))),
			text(report.Milliseconds(time.Duration(c.DurationMS * float64(time.Millisecond)))),
			stacked(el("span", class("code long"), text(c.Host)), el("span", class("code muted"), text(c.TokenPrefix+"…"))),
			stacked(text(string(c.ClientKind)), el("span", class("code muted"), text(c.Client))),
			stacked(code(c.VIP), el("span", class("code muted"), text(c.Upstream))),
			challengeDetail(c),
		})
	}
	s.add("Last challenges", parts{table(fmt.Sprintf("The last %d forwarded challenges, newest first", len(all)), columns, rows)})
}

func challengeDetail(c report.RecentChallenge) part {
	if c.Cause == "" {
		return text(c.Detail)
	}
	return parts{el("span", class("id"), text(c.Cause)), text(" " + c.Detail)}
}

// moment is a time in UTC.
func moment(t time.Time) element {
	return el("time", class("moment"), attr("datetime", t.UTC().Format(time.RFC3339)), text(clock(t)))
}
