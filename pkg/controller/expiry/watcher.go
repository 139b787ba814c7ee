// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// CheckInterval is how often the list of requests is computed. A changed list must be
	// the same twice before it counts.
	CheckInterval           = 5 * time.Second
	certificateReadInterval = time.Hour
	// certificateRetryInterval is the delay after an API server that did not answer, for
	// example while a host boots, and while an attempt to renew a certificate is pending.
	certificateRetryInterval = 5 * time.Minute

	// With these maximums and no API server that answers, one read takes less than three
	// minutes.
	maxVIPs  = 4
	maxNames = 64 // the empty name included

	// maxNewAttempts bounds the names with attempts that the watcher did not take over yet.
	maxNewAttempts = maxNames
)

// Watcher reads the certificates that the API server presents on the API VIPs, at
// the start, every hour, and after a challenge that may be part of a renewal. A prober
// process reads them, and ends with each read.
type Watcher struct {
	log              *slog.Logger
	readCertificates func(context.Context, []protocol.CertificateRequest) ([]report.Certificate, error)
	interval         time.Duration

	mu       sync.Mutex // without any other lock
	names    []string   // of the API
	nameErr  error      // why it is unknown
	vips     []netip.Addr
	attempts map[string]challengelog.Attempt // by name: that ended since the last tick

	// Owned by Run:
	history       history
	lastError     string // of the last read
	lastNameError string // why the last read was without a name
}

// NewWatcher returns a watcher. It computes what to read at intervals.
func NewWatcher(log *slog.Logger, interval time.Duration) *Watcher {
	return &Watcher{
		log: log, readCertificates: queryCertificates, interval: interval,
		attempts: make(map[string]challengelog.Attempt),
	}
}

// Observe takes the API VIPs, the names for which challenges are accepted, and the API's names
// on this host; nameErr is the reason why these are unknown.
func (w *Watcher) Observe(hosts, apiNames []string, nameErr error, vips []report.VIP) {
	// A client does not send an address as its server name (RFC 6066, section 3).
	names := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil
	})
	if len(names) == 0 {
		names = apiNames
	}
	if len(names) > 0 {
		nameErr = nil
	}
	addrs := make([]netip.Addr, len(vips))
	for i, v := range vips {
		addrs[i] = v.Address
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names, w.nameErr, w.vips = names, nameErr, addrs
}

// ObserveAttempt takes an attempt to get a certificate whose challenge ended. Of several for
// one name it keeps the one that outranks the others: a flood of requests must not hide it.
func (w *Watcher) ObserveAttempt(a challengelog.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.attempts[a.Name]
	if ok && a.Outranks(before) || !ok && len(w.attempts) < maxNewAttempts {
		w.attempts[a.Name] = a
	}
}

// addAttempts passes new attempts to the history, and reports whether the certificates must
// be read.
func (w *Watcher) addAttempts() (pending bool) {
	w.mu.Lock()
	all := w.attempts
	w.attempts = make(map[string]challengelog.Attempt)
	w.mu.Unlock()
	for _, a := range all {
		pending = w.history.addAttempt(a, time.Now()) || pending
	}
	return pending
}

// requests returns what to read: on each VIP, the certificate for each name and the one without
// a name. nameErr is the reason why there are no names.
func (w *Watcher) requests() (all []protocol.CertificateRequest, nameErr error) {
	w.mu.Lock()
	names, vips, nameErr := w.names, w.vips, w.nameErr
	w.mu.Unlock()
	if len(vips) == 0 {
		return nil, nil
	}
	names = append([]string{""}, names...)
	for _, vip := range vips[:min(len(vips), maxVIPs)] {
		for _, name := range names[:min(len(names), maxNames)] {
			all = append(all, protocol.CertificateRequest{Addr: netip.AddrPortFrom(vip, prober.APIPort), Name: name})
		}
	}
	slices.SortFunc(all, func(a, b protocol.CertificateRequest) int { return a.Addr.Compare(b.Addr) })
	return all, nameErr
}

// logMissingName logs once that the API's own certificate is not watched.
func (w *Watcher) logMissingName(err error) {
	if err == nil {
		w.lastNameError = ""
		return
	}
	if w.lastNameError == err.Error() {
		return
	}
	w.lastNameError = err.Error()
	w.log.Warn("the API's name is not known: the service watches only the certificate for clients that send no name (SNI), "+
		"and ACME usually renews another one; set hosts in the configuration to all names of the API "+
		"(the service then rejects requests for other names)",
		slog.String("event", "certificate-name"), slog.Any("error", err))
}

// Run reads certificates until ctx ends. output gets what is known after each read.
func (w *Watcher) Run(ctx context.Context, output func([]report.Certificate)) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	var done, last []protocol.CertificateRequest
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, nameErr := w.requests()
		settled := slices.Equal(now, last)
		last = now
		changed := !slices.Equal(now, done)
		if w.addAttempts() {
			next = time.Time{}
		}
		if !settled || (!changed && (len(now) == 0 || time.Now().Before(next))) {
			continue
		}
		w.logMissingName(nameErr)
		done = now
		interval := certificateRetryInterval
		if w.readAll(ctx, now, output) && !w.history.attemptsPending() {
			interval = certificateReadInterval
		}
		next = time.Now().Add(interval)
	}
}

// readAll reads all certificates, and reports whether every API server answered.
func (w *Watcher) readAll(
	ctx context.Context, requests []protocol.CertificateRequest, output func([]report.Certificate),
) bool {
	results, err := w.readCertificates(ctx, requests)
	if ctx.Err() != nil {
		return false // the end of the service canceled it
	}
	if err != nil {
		if err.Error() != w.lastError {
			w.lastError = err.Error()
			w.log.Error("cannot read the API server's certificates; retrying",
				slog.String("event", "certificate"), slog.Any("error", err))
		}
		return false
	}
	w.lastError = ""
	known, events, failed := w.history.record(results, time.Now())
	output(known)
	for i := range events {
		w.logEvent(&events[i])
	}
	for i := range failed {
		w.logFailedRenewal(&failed[i])
	}
	return !slices.ContainsFunc(results, func(c report.Certificate) bool { return c.Error != "" })
}

func (w *Watcher) logEvent(e *event) {
	c := e.Certificate
	attrs := certificateAttrs("certificate", c)
	if c.NotAfter.IsZero() {
		attrs = attrs[:4] // no certificate was ever presented there
	}
	w.log.LogAttrs(context.Background(), e.Level, e.Text, attrs...)
}

func (w *Watcher) logFailedRenewal(f *failedRenewal) {
	level := slog.LevelWarn
	if f.AttemptsLeft <= 1 {
		level = slog.LevelError
	}
	c := f.Certificate
	w.log.LogAttrs(context.Background(), level, f.Text(), append(certificateAttrs("renewal-failed", c),
		slog.String("cause", f.Attempt.Cause), slog.Int("count", c.FailedRenewals),
		slog.Int("attempts_left", f.AttemptsLeft))...)
}

func certificateAttrs(event string, c report.Certificate) []slog.Attr {
	return []slog.Attr{
		slog.String("event", event), slog.String("address", c.Address), slog.String("name", c.Name),
		slog.String("issuer", c.Issuer), slog.String("serial", c.Serial), slog.Time("not_after", c.NotAfter),
	}
}

// queryCertificates starts a prober process, sends it all requests, and ends it.
func queryCertificates(ctx context.Context, requests []protocol.CertificateRequest) ([]report.Certificate, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	client, err := prober.Start()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all []report.Certificate
	for _, r := range client.Certificates(ctx, requests) {
		c := report.Certificate{Address: r.Addr.String(), Name: r.Name, Checked: r.CheckedAt}
		if r.Err != nil {
			c.Error = r.Err.Error()
		} else {
			c.Issuer, c.Serial = r.Certificate.Issuer, r.Certificate.Serial
			c.NotBefore, c.NotAfter = r.Certificate.NotBefore, r.Certificate.NotAfter
		}
		all = append(all, c)
	}
	return all, nil
}
