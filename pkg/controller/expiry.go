// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/expiry"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// expiryTick is how soon a change of what there is to look at is seen; it has to
	// last for two of them.
	expiryTick  = 5 * time.Second
	expiryEvery = time.Hour
	// expirySoon is the wait after a look at an API server that did not answer, as
	// while a host boots; it doubles up to expiryEvery.
	expirySoon = time.Minute

	// The bounds of one look: with all of these, and nobody there to answer, it
	// takes less than three minutes.
	maxExpiryVIPs  = 4
	maxExpiryNames = 64 // the empty one included
)

// expiryWatch looks at the certificates that the API server presents on the API
// VIPs, at the start and every hour. A child without capabilities asks, and ends
// with the look.
type expiryWatch struct {
	log   *slog.Logger
	board *report.Board
	ask   func(context.Context, []prober.CertificateQuestion) ([]report.Certificate, error)
	watch expiry.Watch
	said  string // why the last look was none
	blind string // why the last look was without a name, for run alone
	tick  time.Duration
	url   string // the file by which the host tells where the API is

	mu    sync.Mutex
	hosts []string // of the configuration
}

func newExpiryWatch(log *slog.Logger, board *report.Board, apiServerURL string, tick time.Duration) *expiryWatch {
	return &expiryWatch{log: log, board: board, ask: askChild, url: apiServerURL, tick: tick}
}

// configure takes the configuration in force.
func (w *expiryWatch) configure(c config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// An address is not asked for by SNI.
	w.hosts = slices.DeleteFunc(slices.Clone(c.Hosts), func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil
	})
}

// names are those to ask for besides none: the configured ones, or else the API's by
// what the host says. Without any, why tells the reason.
func (w *expiryWatch) names() (names []string, why error) {
	w.mu.Lock()
	names = w.hosts
	w.mu.Unlock()
	if len(names) > 0 {
		return names, nil
	}
	name, err := apiname.Read(w.url)
	if err != nil {
		return nil, err
	}
	return []string{name}, nil
}

// questions are what there is to look at: each name, and no name, on each VIP. why
// tells why there are no names.
func (w *expiryWatch) questions() (all []prober.CertificateQuestion, why error) {
	vips := w.board.VIPs()
	if len(vips) == 0 {
		return nil, nil
	}
	names, why := w.names()
	names = append([]string{""}, names...)
	for _, v := range vips[:min(len(vips), maxExpiryVIPs)] {
		for _, name := range names[:min(len(names), maxExpiryNames)] {
			all = append(all, prober.CertificateQuestion{Addr: netip.AddrPortFrom(v.Address, prober.APIPort), Name: name})
		}
	}
	slices.SortFunc(all, func(a, b prober.CertificateQuestion) int { return a.Addr.Compare(b.Addr) })
	return all, why
}

// nameless says once that the API's own certificate is out of sight.
func (w *expiryWatch) nameless(why error) {
	if why == nil {
		w.blind = ""
		return
	}
	if w.blind == why.Error() {
		return
	}
	w.blind = why.Error()
	w.log.Warn("the API's name is not known, so only the certificate that the API server presents to who sends no name is watched, and that is as a rule not the one that is renewed by ACME: "+
		"put the API's name into hosts of the configuration (challenges for other names are refused then)",
		slog.String("event", "certificate-name"), slog.Any("error", why))
}

// run looks until ctx ends.
func (w *expiryWatch) run(ctx context.Context) error {
	tick := time.NewTicker(w.tick)
	defer tick.Stop()
	var looked, last []prober.CertificateQuestion
	var next time.Time
	again := expirySoon
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, why := w.questions()
		settled := slices.Equal(now, last)
		last = now
		changed := !slices.Equal(now, looked)
		if !settled || (!changed && (len(now) == 0 || time.Now().Before(next))) {
			continue
		}
		w.nameless(why)
		if changed {
			looked, again = now, expirySoon
		}
		if w.look(ctx, now) {
			next, again = time.Now().Add(expiryEvery), expirySoon
			continue
		}
		next = time.Now().Add(again)
		again = min(2*again, expiryEvery)
	}
}

// look takes one look, and reports whether every API server has answered.
func (w *expiryWatch) look(ctx context.Context, questions []prober.CertificateQuestion) bool {
	found, err := w.ask(ctx, questions)
	if ctx.Err() != nil {
		return false // what our own end has broken off says nothing
	}
	if err != nil {
		if err.Error() != w.said {
			w.said = err.Error()
			w.log.Error("cannot look at the API server's certificates; trying again", slog.String("event", "certificate"), slog.Any("error", err))
		}
		return false
	}
	w.said = ""
	known, lines := w.watch.Take(found, time.Now())
	w.board.SetCertificates(known)
	for _, l := range lines {
		w.say(l)
	}
	return !slices.ContainsFunc(found, func(c report.Certificate) bool { return c.Error != "" })
}

func (w *expiryWatch) say(l expiry.Line) {
	c := l.Certificate
	attrs := []slog.Attr{slog.String("event", "certificate"), slog.String("address", c.Address), slog.String("name", c.Name), slog.String("issuer", c.Issuer)}
	if !c.NotAfter.IsZero() {
		attrs = append(attrs, slog.String("serial", c.Serial), slog.Time("not_after", c.NotAfter))
	}
	w.log.LogAttrs(context.Background(), l.Level, l.Text, attrs...)
}

// askChild starts a child, asks it all questions, and ends it.
func askChild(ctx context.Context, questions []prober.CertificateQuestion) ([]report.Certificate, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	client, err := prober.Start()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []report.Certificate
	for _, p := range client.Certificates(ctx, questions) {
		c := report.Certificate{Address: p.Addr.String(), Name: p.Name, Checked: p.Checked}
		if p.Err != nil {
			c.Error = p.Err.Error()
		} else {
			c.Issuer, c.Serial, c.NotBefore, c.NotAfter = p.Certificate.Issuer, p.Certificate.Serial, p.Certificate.NotBefore, p.Certificate.NotAfter
		}
		found = append(found, c)
	}
	return found, nil
}
