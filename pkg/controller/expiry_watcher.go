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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// expiryCheckInterval is how soon a change of what there is to look at is seen; it has to
	// last for two of them.
	expiryCheckInterval     = 5 * time.Second
	certificateReadInterval = time.Hour
	// minCertificateRetry is the wait after a look at an API server that did not answer, as
	// while a host boots; it doubles up to certificateReadInterval.
	minCertificateRetry = time.Minute

	// The bounds of one look: with all of these, and nobody there to answer, it
	// takes less than three minutes.
	maxExpiryVIPs  = 4
	maxExpiryNames = 64 // the empty one included
)

// expiryWatcher looks at the certificates that the API server presents on the API
// VIPs, at the start and every hour. A child without capabilities asks, and ends
// with the look.
type expiryWatcher struct {
	log              *slog.Logger
	tracker          *report.Tracker
	readCertificates func(context.Context, []protocol.CertificateRequest) ([]report.Certificate, error)
	history          expiry.History
	lastError        string // why the last look was none
	lastNameError    string // why the last look was without a name, for run alone
	interval         time.Duration
	apiServerURLFile string // the file by which the host tells where the API is

	mu    sync.Mutex
	hosts []string // of the configuration
}

func newExpiryWatcher(log *slog.Logger, board *report.Tracker, apiServerURL string, tick time.Duration) *expiryWatcher {
	return &expiryWatcher{log: log, tracker: board, readCertificates: queryCertificates, apiServerURLFile: apiServerURL, interval: tick}
}

// configure takes the configuration in force.
func (w *expiryWatcher) configure(c config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// An address is not asked for by SNI.
	w.hosts = slices.DeleteFunc(slices.Clone(c.Hosts), func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil
	})
}

// serverNames are those to ask for besides none: the configured ones, or else the API's by
// what the host says. Without any, why tells the reason.
func (w *expiryWatcher) serverNames() (names []string, why error) {
	w.mu.Lock()
	names = w.hosts
	w.mu.Unlock()
	if len(names) > 0 {
		return names, nil
	}
	name, err := apiname.Read(w.apiServerURLFile)
	if err != nil {
		return nil, err
	}
	return []string{name}, nil
}

// queries are what there is to look at: each name, and no name, on each VIP. why
// tells why there are no names.
func (w *expiryWatcher) queries() (all []protocol.CertificateRequest, why error) {
	vips := w.tracker.VIPs()
	if len(vips) == 0 {
		return nil, nil
	}
	names, why := w.serverNames()
	names = append([]string{""}, names...)
	for _, v := range vips[:min(len(vips), maxExpiryVIPs)] {
		for _, name := range names[:min(len(names), maxExpiryNames)] {
			all = append(all, protocol.CertificateRequest{Addr: netip.AddrPortFrom(v.Address, prober.APIPort), Name: name})
		}
	}
	slices.SortFunc(all, func(a, b protocol.CertificateRequest) int { return a.Addr.Compare(b.Addr) })
	return all, why
}

// logMissingName says once that the API's own certificate is out of sight.
func (w *expiryWatcher) logMissingName(why error) {
	if why == nil {
		w.lastNameError = ""
		return
	}
	if w.lastNameError == why.Error() {
		return
	}
	w.lastNameError = why.Error()
	w.log.Warn("the API's name is not known, so only the certificate that the API server presents to who sends no name is watched, and that is as a rule not the one that is renewed by ACME: "+
		"put the API's name into hosts of the configuration (challenges for other names are refused then)",
		slog.String("event", "certificate-name"), slog.Any("error", why))
}

// run looks until ctx ends.
func (w *expiryWatcher) run(ctx context.Context) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	var looked, last []protocol.CertificateRequest
	var next time.Time
	again := minCertificateRetry
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, why := w.queries()
		settled := slices.Equal(now, last)
		last = now
		changed := !slices.Equal(now, looked)
		if !settled || (!changed && (len(now) == 0 || time.Now().Before(next))) {
			continue
		}
		w.logMissingName(why)
		if changed {
			looked, again = now, minCertificateRetry
		}
		if w.readAll(ctx, now) {
			next, again = time.Now().Add(certificateReadInterval), minCertificateRetry
			continue
		}
		next = time.Now().Add(again)
		again = min(2*again, certificateReadInterval)
	}
}

// setObservation takes one look, and reports whether every API server has answered.
func (w *expiryWatcher) readAll(ctx context.Context, questions []protocol.CertificateRequest) bool {
	found, err := w.readCertificates(ctx, questions)
	if ctx.Err() != nil {
		return false // what our own end has broken off says nothing
	}
	if err != nil {
		if err.Error() != w.lastError {
			w.lastError = err.Error()
			w.log.Error("cannot look at the API server's certificates; trying again", slog.String("event", "certificate"), slog.Any("error", err))
		}
		return false
	}
	w.lastError = ""
	known, lines := w.history.Record(found, time.Now())
	w.tracker.SetCertificates(known)
	for _, l := range lines {
		w.logEvent(l)
	}
	return !slices.ContainsFunc(found, func(c report.Certificate) bool { return c.Error != "" })
}

func (w *expiryWatcher) logEvent(l expiry.Event) {
	c := l.Certificate
	attrs := []slog.Attr{slog.String("event", "certificate"), slog.String("address", c.Address), slog.String("name", c.Name), slog.String("issuer", c.Issuer)}
	if !c.NotAfter.IsZero() {
		attrs = append(attrs, slog.String("serial", c.Serial), slog.Time("not_after", c.NotAfter))
	}
	w.log.LogAttrs(context.Background(), l.Level, l.Text, attrs...)
}

// queryCertificates starts a child, asks it all questions, and ends it.
func queryCertificates(ctx context.Context, questions []protocol.CertificateRequest) ([]report.Certificate, error) {
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
		c := report.Certificate{Address: p.Addr.String(), Name: p.Name, Checked: p.CheckedAt}
		if p.Err != nil {
			c.Error = p.Err.Error()
		} else {
			c.Issuer, c.Serial, c.NotBefore, c.NotAfter = p.Certificate.Issuer, p.Certificate.Serial, p.Certificate.NotBefore, p.Certificate.NotAfter
		}
		found = append(found, c)
	}
	return found, nil
}
