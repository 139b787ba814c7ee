// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// event is a line to log once.
type event struct {
	Level       slog.Level
	Text        string
	Certificate report.Certificate // the one that it is about; the first if several are equal
}

// history records what was read and logged. The zero value is empty.
type history struct {
	lastSeen map[endpoint]report.Certificate
	stages   map[identity]report.CertificateStage // of the certificates that are presented now
	silent   map[endpoint]bool                    // endpoints that present no certificate

	changed  map[string]time.Time            // when a name's certificate was last seen to change
	attempts map[string]challengelog.Attempt // of a name, until they fail or succeed
	failures map[string]failures             // of a name, since its certificate changed
}

// endpoint is where a certificate is presented.
type endpoint struct{ address, name string }

// identity identifies a certificate: an issuer uses each serial once.
type identity struct {
	issuer, serial string
	notAfter       time.Time
}

func endpointOf(c report.Certificate) endpoint { return endpoint{c.Address, c.Name} }

func identityOf(c report.Certificate) identity {
	return identity{c.Issuer, c.Serial, c.NotAfter.UTC()}
}

// record takes the results of one read, one for each endpoint, and returns what is known
// now and what to log. An endpoint that does not answer keeps the certificate that it
// presented before, because its expiry still approaches.
func (h *history) record(results []report.Certificate, now time.Time) (
	known []report.Certificate, events []event, failed []failedRenewal,
) {
	events = h.silenceEvents(results)
	known = slices.Clone(results)
	for i, c := range known {
		if last, ok := h.lastSeen[endpointOf(c)]; c.Error != "" && ok {
			last.Checked, last.Error = c.Checked, c.Error
			known[i] = last
		}
	}
	h.recordChanges(known, now)
	failed = h.judgeAttempts(known, now)
	groups := group(known, func(c report.Certificate) (identity, bool) {
		return identityOf(c), !c.NotAfter.IsZero() // otherwise no certificate was ever presented there
	})
	stages := make(map[identity]report.CertificateStage)
	for _, g := range groups {
		if found, ok := h.renewalEvent(g); ok {
			events = append(events, found)
		}
		id := identityOf(g[0])
		stages[id] = g[0].Stage(now)
		if before := h.stages[id]; stages[id] > before {
			events = append(events, expiryEvent(g, now))
		}
	}
	h.stages, h.lastSeen = stages, make(map[endpoint]report.Certificate)
	for _, g := range groups {
		for _, c := range g {
			h.lastSeen[endpointOf(c)] = c
		}
	}
	return known, events, failed
}

// group collects the certificates with a key by that key, in the order of the read.
func group[K comparable](
	all []report.Certificate, keyOf func(report.Certificate) (K, bool),
) (groups [][]report.Certificate) {
	at := make(map[K]int)
	for _, c := range all {
		key, has := keyOf(c)
		if !has {
			continue
		}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// renewalEvent is about endpoints that present another certificate than before.
func (h *history) renewalEvent(g []report.Certificate) (found event, ok bool) {
	var changed []report.Certificate
	var old report.Certificate
	for _, c := range g {
		if last, had := h.lastSeen[endpointOf(c)]; had && identityOf(last) != identityOf(c) {
			changed = append(changed, c)
			old = last
		}
	}
	if len(changed) == 0 {
		return found, false
	}
	c := changed[0]
	verb := "was renewed and is valid"
	if !c.NotAfter.After(old.NotAfter) {
		verb = "was replaced by one that is valid"
	}
	text := fmt.Sprintf("the certificate that the API server presents %s %s until %s (before: %s), issued by %q",
		endpointsText(changed), verb, formatTime(c.NotAfter), formatTime(old.NotAfter), c.Issuer)
	return event{slog.LevelInfo, text, c}, true
}

// expiryEvent has the finding about a certificate that entered a stage.
func expiryEvent(g []report.Certificate, now time.Time) event {
	due := slices.IndexFunc(g, func(c report.Certificate) bool { return c.RenewalDue(now) })
	c := g[max(0, due)].WithAttemptsLeft(now)
	c.Address, c.Name = endpointsOf(g)
	f, level := verdict.Certificate(c, now)[0], slog.LevelError
	if f.Level == findings.Warning {
		level = slog.LevelWarn
	}
	return event{level, f.String(), g[0]}
}

// silenceEvents is about endpoints that stop or start to present a certificate: one event for an
// address and a reason.
func (h *history) silenceEvents(results []report.Certificate) (events []event) {
	silent := make(map[endpoint]bool)
	for _, c := range results {
		silent[endpointOf(c)] = c.Error != ""
	}
	type change struct{ address, reason string }
	for _, g := range group(results, func(c report.Certificate) (change, bool) {
		return change{c.Address, c.Error}, silent[endpointOf(c)] != h.silent[endpointOf(c)]
	}) {
		c, at := g[0], endpointsText(g)
		level, text := slog.LevelInfo, "the API server presents a certificate again "+at
		if c.Error != "" {
			level = slog.LevelWarn
			text = fmt.Sprintf("the API server does not present a certificate %s; its expiry cannot be watched: %s", at, c.Error)
		}
		events = append(events, event{level, text, c})
	}
	h.silent = silent
	return events
}

// endpointsText lists the endpoints of a certificate.
func endpointsText(g []report.Certificate) string {
	addresses, names := endpointsOf(g)
	return fmt.Sprintf("on %s for %s", addresses, names)
}

func endpointsOf(g []report.Certificate) (at, requested string) {
	var addresses, names []string
	for _, c := range g {
		name := cmp.Or(c.Name, "clients without SNI")
		if !slices.Contains(addresses, c.Address) {
			addresses = append(addresses, c.Address)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return joinBounded(addresses), joinBounded(names)
}

// maxListed bounds the names in a line.
const maxListed = 4

func joinBounded(all []string) string {
	if len(all) <= maxListed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxListed], ", "), len(all)-maxListed)
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
