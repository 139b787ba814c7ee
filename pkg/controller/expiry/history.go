// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Event is something to say, once.
type Event struct {
	Level       slog.Level
	Text        string
	Certificate report.Certificate // that it is about; of several that are alike, the first
}

// History remembers what was found and said. The zero value knows nothing.
type History struct {
	lastSeen   map[endpoint]report.Certificate      // the last of each
	stages     map[identity]report.CertificateStage // of the certificates that are presented now
	hostSilent map[string]bool                      // addresses where nobody answers
	nameSilent map[endpoint]bool                    // places that do not answer at an address that does
}

// endpoint is where a certificate is presented.
type endpoint struct{ address, name string }

// identity tells certificates apart: an issuer gives no serial twice.
type identity struct {
	issuer, serial string
	notAfter       time.Time
}

func endpointOf(c report.Certificate) endpoint { return endpoint{c.Address, c.Name} }

func identityOf(c report.Certificate) identity { return identity{c.Issuer, c.Serial, c.NotAfter.UTC()} }

// Record takes what one look has found, an entry for each place that was asked, and
// returns what is known now and what there is to say. A place that does not answer
// keeps the certificate that it presented before: it grows older all the same.
func (w *History) Record(found []report.Certificate, now time.Time) (known []report.Certificate, lines []Event) {
	lines = w.silenceEvents(found)
	known = slices.Clone(found)
	for i, c := range known {
		if last, is := w.lastSeen[endpointOf(c)]; c.Error != "" && is {
			known[i].Issuer, known[i].Serial, known[i].NotBefore, known[i].NotAfter = last.Issuer, last.Serial, last.NotBefore, last.NotAfter
		}
	}
	groups := groupByCertificate(known)
	stages := make(map[identity]report.CertificateStage)
	for _, g := range groups {
		if line, is := w.renewalEvent(g); is {
			lines = append(lines, line)
		}
		id := identityOf(g[0])
		stages[id] = g[0].Stage(now)
		if before := w.stages[id]; stages[id] > before {
			lines = append(lines, expiryEvent(g, stages[id], now))
		}
	}
	w.stages, w.lastSeen = stages, make(map[endpoint]report.Certificate)
	for _, g := range groups {
		for _, c := range g {
			w.lastSeen[endpointOf(c)] = c
		}
	}
	return known, lines
}

// groupByCertificate gathers the places of each certificate, in the order in which they were
// asked.
func groupByCertificate(known []report.Certificate) (groups [][]report.Certificate) {
	at := make(map[identity]int)
	for _, c := range known {
		if c.NotAfter.IsZero() {
			continue // none was ever seen there
		}
		id := identityOf(c)
		i, is := at[id]
		if !is {
			i = len(groups)
			at[id] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// renewalEvent is what to say when places present another certificate than before.
func (w *History) renewalEvent(g []report.Certificate) (line Event, is bool) {
	var moved []report.Certificate
	var old report.Certificate
	for _, c := range g {
		if last, had := w.lastSeen[endpointOf(c)]; had && identityOf(last) != identityOf(c) {
			moved = append(moved, c)
			old = last
		}
	}
	if len(moved) == 0 {
		return line, false
	}
	c := moved[0]
	verb := "was renewed: it is good"
	if !c.NotAfter.After(old.NotAfter) {
		verb = "has changed, for one that is good"
	}
	return Event{slog.LevelInfo, fmt.Sprintf("the certificate that the API server presents %s %s until %s (before: %s), issued by %q",
		endpointsText(moved), verb, formatTime(c.NotAfter), formatTime(old.NotAfter), c.Issuer), c}, true
}

func expiryEvent(g []report.Certificate, stage report.CertificateStage, now time.Time) Event {
	c := g[0]
	subject := fmt.Sprintf("the certificate that the API server presents %s, issued by %q, ", endpointsText(g), cmp.Or(c.Issuer, "nobody"))
	if stage == report.CertificateNotYetValid {
		return Event{slog.LevelError, subject + "is not valid before " + formatTime(c.NotBefore) + ": clients refuse the API until then; look at the clocks of this host and of who has issued it", c}
	}
	if stage == report.CertificateExpired {
		return Event{slog.LevelError, subject + "has expired at " + formatTime(c.NotAfter) + ": clients refuse the API by now; " + remediation, c}
	}
	text := fmt.Sprintf("%sexpires in %s, at %s, of the %s that it lives: whoever renews it is late; %s",
		subject, report.Age(c.NotAfter.Sub(now)), formatTime(c.NotAfter), report.Age(c.NotAfter.Sub(c.NotBefore)), remediation)
	if stage == report.CertificateUrgent {
		return Event{slog.LevelError, text, c}
	}
	return Event{slog.LevelWarn, text, c}
}

const remediation = "look at its Certificate, Order and Challenge (oc get certificate,order,challenge -A), and run http01-proxyd check"

// silenceEvents is what to say of places that do not answer any more, and of those that
// do again. An address where nobody answers is one line, however many names.
func (w *History) silenceEvents(found []report.Certificate) (lines []Event) {
	deaf, mute := make(map[string]bool), make(map[endpoint]bool)
	first := make(map[string]report.Certificate) // of an address
	for _, c := range found {
		if _, is := first[c.Address]; !is {
			first[c.Address] = c
			deaf[c.Address] = true
		}
		deaf[c.Address] = deaf[c.Address] && c.Error != ""
	}
	for _, c := range found {
		address, name := c.Address, endpointOf(c)
		switch {
		case deaf[address]:
			if !w.hostSilent[address] && first[address] == c {
				lines = append(lines, Event{slog.LevelWarn, fmt.Sprintf("the API server at %s does not present a certificate, so that nobody sees when it expires: %s", address, c.Error), c})
			}
		case w.hostSilent[address]:
			if first[address] == c {
				lines = append(lines, Event{slog.LevelInfo, fmt.Sprintf("the API server at %s presents a certificate again", address), c})
			}
		case c.Error != "" && !w.nameSilent[name]:
			lines = append(lines, Event{slog.LevelWarn, fmt.Sprintf("the API server presents no certificate %s: %s", endpointsText([]report.Certificate{c}), c.Error), c})
		}
		mute[name] = c.Error != "" && !deaf[address]
	}
	w.hostSilent, w.nameSilent = deaf, mute
	return lines
}

// endpointsText names the places of a certificate.
func endpointsText(g []report.Certificate) string {
	var addresses, names []string
	for _, c := range g {
		name := c.Name
		if name == "" {
			name = "no name"
		}
		if !slices.Contains(addresses, c.Address) {
			addresses = append(addresses, c.Address)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("on %s for %s", joinBounded(addresses), joinBounded(names))
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
