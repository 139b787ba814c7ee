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

// Line is something to say, once.
type Line struct {
	Level       slog.Level
	Text        string
	Certificate report.Certificate // that it is about; of several that are alike, the first
}

// Watch remembers what was found and said. The zero value knows nothing.
type Watch struct {
	places map[place]report.Certificate // the last of each
	stages map[identity]report.Stage    // of the certificates that are presented now
	deaf   map[string]bool              // addresses where nobody answers
	mute   map[place]bool               // places that do not answer at an address that does
}

// place is where a certificate is presented.
type place struct{ address, name string }

// identity tells certificates apart: an issuer gives no serial twice.
type identity struct {
	issuer, serial string
	notAfter       time.Time
}

func placeOf(c report.Certificate) place { return place{c.Address, c.Name} }

func identityOf(c report.Certificate) identity { return identity{c.Issuer, c.Serial, c.NotAfter.UTC()} }

// Take takes what one look has found, an entry for each place that was asked, and
// returns what is known now and what there is to say. A place that does not answer
// keeps the certificate that it presented before: it grows older all the same.
func (w *Watch) Take(found []report.Certificate, now time.Time) (known []report.Certificate, lines []Line) {
	lines = w.silences(found)
	known = slices.Clone(found)
	for i, c := range known {
		if last, is := w.places[placeOf(c)]; c.Error != "" && is {
			known[i].Issuer, known[i].Serial, known[i].NotBefore, known[i].NotAfter = last.Issuer, last.Serial, last.NotBefore, last.NotAfter
		}
	}
	groups := group(known)
	stages := make(map[identity]report.Stage)
	for _, g := range groups {
		if line, is := w.renewal(g); is {
			lines = append(lines, line)
		}
		id := identityOf(g[0])
		stages[id] = g[0].Stage(now)
		if before := w.stages[id]; stages[id] > before {
			lines = append(lines, ageing(g, stages[id], now))
		}
	}
	w.stages, w.places = stages, make(map[place]report.Certificate)
	for _, g := range groups {
		for _, c := range g {
			w.places[placeOf(c)] = c
		}
	}
	return known, lines
}

// group gathers the places of each certificate, in the order in which they were
// asked.
func group(known []report.Certificate) (groups [][]report.Certificate) {
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

// renewal is what to say when places present another certificate than before.
func (w *Watch) renewal(g []report.Certificate) (line Line, is bool) {
	var moved []report.Certificate
	var old report.Certificate
	for _, c := range g {
		if last, had := w.places[placeOf(c)]; had && identityOf(last) != identityOf(c) {
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
	return Line{slog.LevelInfo, fmt.Sprintf("the certificate that the API server presents %s %s until %s (before: %s), issued by %q",
		where(moved), verb, stamp(c.NotAfter), stamp(old.NotAfter), c.Issuer), c}, true
}

func ageing(g []report.Certificate, stage report.Stage, now time.Time) Line {
	c := g[0]
	subject := fmt.Sprintf("the certificate that the API server presents %s, issued by %q, ", where(g), cmp.Or(c.Issuer, "nobody"))
	if stage == report.NotYetValid {
		return Line{slog.LevelError, subject + "is not valid before " + stamp(c.NotBefore) + ": clients refuse the API until then; look at the clocks of this host and of who has issued it", c}
	}
	if stage == report.Expired {
		return Line{slog.LevelError, subject + "has expired at " + stamp(c.NotAfter) + ": clients refuse the API by now; " + mend, c}
	}
	text := fmt.Sprintf("%sexpires in %s, at %s, of the %s that it lives: whoever renews it is late; %s",
		subject, report.Age(c.NotAfter.Sub(now)), stamp(c.NotAfter), report.Age(c.NotAfter.Sub(c.NotBefore)), mend)
	if stage == report.Urgent {
		return Line{slog.LevelError, text, c}
	}
	return Line{slog.LevelWarn, text, c}
}

const mend = "look at its Certificate, Order and Challenge (oc get certificate,order,challenge -A), and run http01-proxyd check"

// silences is what to say of places that do not answer any more, and of those that
// do again. An address where nobody answers is one line, however many names.
func (w *Watch) silences(found []report.Certificate) (lines []Line) {
	deaf, mute := make(map[string]bool), make(map[place]bool)
	first := make(map[string]report.Certificate) // of an address
	for _, c := range found {
		if _, is := first[c.Address]; !is {
			first[c.Address] = c
			deaf[c.Address] = true
		}
		deaf[c.Address] = deaf[c.Address] && c.Error != ""
	}
	for _, c := range found {
		address, name := c.Address, placeOf(c)
		switch {
		case deaf[address]:
			if !w.deaf[address] && first[address] == c {
				lines = append(lines, Line{slog.LevelWarn, fmt.Sprintf("the API server at %s does not present a certificate, so that nobody sees when it expires: %s", address, c.Error), c})
			}
		case w.deaf[address]:
			if first[address] == c {
				lines = append(lines, Line{slog.LevelInfo, fmt.Sprintf("the API server at %s presents a certificate again", address), c})
			}
		case c.Error != "" && !w.mute[name]:
			lines = append(lines, Line{slog.LevelWarn, fmt.Sprintf("the API server presents no certificate %s: %s", where([]report.Certificate{c}), c.Error), c})
		}
		mute[name] = c.Error != "" && !deaf[address]
	}
	w.deaf, w.mute = deaf, mute
	return lines
}

// where names the places of a certificate.
func where(g []report.Certificate) string {
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
	return fmt.Sprintf("on %s for %s", few(addresses), few(names))
}

// shown bounds the names in a line.
const shown = 4

func few(all []string) string {
	if len(all) <= shown {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:shown], ", "), len(all)-shown)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
