// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// presentedCertificate is the certificate that an API server presents.
type presentedCertificate struct{ prober.CertificateResult }

// clientText describes the clients that use the name.
func (p presentedCertificate) clientText() string {
	if p.Name == "" {
		return "clients without SNI"
	}
	return p.Name
}

// describe describes the certificate and its clients.
func (p presentedCertificate) describe() string {
	return fmt.Sprintf("for %s: issued by %q, until %s", p.clientText(), p.Certificate.Issuer, p.Certificate.NotAfter.UTC().Format(time.DateOnly))
}

// checkCertificate checks the certificate of the API server on each VIP, for each name
// and without one.
func checkCertificate(ctx context.Context, h *host) Result {
	if h.microShiftKnown() {
		return checkMicroShiftCertificate(ctx, h)
	}
	names, _ := h.observed.names.await(ctx)
	names = append(slices.Clone(names[:min(len(names), maxNames)]), "")
	var questions []protocol.CertificateRequest
	for _, addr := range h.apiServerAddresses(ctx) {
		for _, name := range names {
			questions = append(questions, protocol.CertificateRequest{Addr: netip.AddrPortFrom(addr, prober.APIPort), Name: name})
		}
	}
	if len(questions) == 0 {
		return skippedResult("there is no VIP to check")
	}
	all := make([]presentedCertificate, 0, len(questions))
	for _, p := range h.prober.Certificates(ctx, questions) {
		all = append(all, presentedCertificate{p})
	}
	unreachable, at := h.unreachableAPIServers(all)
	var noResponse groupedTexts
	all = slices.DeleteFunc(all, func(p presentedCertificate) bool {
		if p.Err != nil && !slices.Contains(at, p.Addr) {
			noResponse.add(p.Addr, "%v", p.Err)
		}
		return p.Err != nil
	})
	if len(all) == 0 && len(unreachable) == 0 {
		return skippedResult("no API server presents a certificate: %v", &noResponse)
	}
	if len(all) == 0 {
		return findingsResult(unreachable, "")
	}
	return findingsResult(append(unreachable, judgeCertificates(all, time.Now())...),
		"%s", all[0].describe()).withNotChecked(noResponse.String())
}

// unreachableAPIServers are the VIPs on this host whose API server answered no request
// for a certificate.
func (h *host) unreachableAPIServers(all []presentedCertificate) (matches []findings.Finding, at []netip.AddrPort) {
	for _, vip := range h.ownership.Held {
		addr := netip.AddrPortFrom(vip, prober.APIPort)
		results := slices.DeleteFunc(slices.Clone(all), func(p presentedCertificate) bool { return p.Addr != addr })
		if len(results) > 0 && !slices.ContainsFunc(results, func(p presentedCertificate) bool { return p.Err == nil }) {
			matches = mergeFinding(matches, findings.New(findings.APIServerUnreachable, findings.Values{"server": addr.String(), "error": results[0].Err.Error()}), addr)
			at = append(at, addr)
		}
	}
	return matches, at
}

// apiServerAddresses are the reachable VIPs and this host's own addresses beside them.
// Behind a VIP is one API server. Behind the host's own address is the one on this
// host, if it is a control-plane node.
func (h *host) apiServerAddresses(ctx context.Context) []netip.Addr {
	var all []netip.Addr
	for _, vip := range h.vips.API {
		if !h.observed.vipFaulty(ctx, vip) {
			all = append(all, vip)
		}
	}
	for _, vip := range h.vips.API {
		if w, err := h.pathTo(vip); err == nil && w.Source.IsValid() && !slices.Contains(all, w.Source) {
			all = append(all, w.Source)
		}
	}
	return all
}

// judgeCertificates evaluates each certificate once, and then the differences.
func judgeCertificates(all []presentedCertificate, now time.Time) []findings.Finding {
	var matches []findings.Finding
	dated, named := make(map[string]bool), make(map[string]bool)
	for _, p := range all {
		identity := p.Certificate.Issuer + "\n" + p.Certificate.Serial
		if !named[identity+"\n"+p.Name] && p.Name != "" && !p.Certificate.CoversName {
			matches = append(matches, p.newFinding(findings.CertificateNameMissing, nil))
		}
		if !dated[identity] {
			matches = append(matches, p.judgeDates(now)...)
		}
		named[identity+"\n"+p.Name], dated[identity] = true, true
	}
	return append(matches, issuerDifferences(all)...)
}

func (p presentedCertificate) newFinding(id findings.ID, values findings.Values) findings.Finding {
	return findings.New(id, values.With("server", p.Addr.String()).With("requested", p.clientText()).With("issuer", strconv.Quote(p.Certificate.Issuer)))
}

// judgeDates evaluates the remaining lifetime of a certificate.
func (p presentedCertificate) judgeDates(now time.Time) []findings.Finding {
	ends := findings.Values{"date": p.Certificate.NotAfter.UTC().Format(time.RFC3339), "left": report.Age(p.Certificate.NotAfter.Sub(now))}
	switch report.CertificateStageAt(p.Certificate.NotBefore, p.Certificate.NotAfter, now) {
	case report.CertificateNotYetValid:
		return []findings.Finding{p.newFinding(findings.CertificateNotYetValid, findings.Values{"date": p.Certificate.NotBefore.UTC().Format(time.RFC3339)})}
	case report.CertificateExpired:
		return []findings.Finding{p.newFinding(findings.CertificateExpired, ends)}
	case report.CertificateUrgent:
		return []findings.Finding{p.newFinding(findings.CertificateExpiryUrgent, ends)}
	case report.CertificateRenewalLate:
		return []findings.Finding{p.newFinding(findings.CertificateExpiresSoon, ends)}
	default:
		return nil
	}
}

// issuerDifferences compares the issuers: of one name at several addresses, and of
// several names at one address. Without a name, the API server presents another
// certificate by design.
func issuerDifferences(all []presentedCertificate) []findings.Finding {
	var matches []findings.Finding
	add := func(f findings.Finding) {
		if !slices.ContainsFunc(matches, func(g findings.Finding) bool { return g.ID == f.ID }) {
			matches = append(matches, f) // one pair is sufficient
		}
	}
	for i, p := range all {
		for _, q := range all[i+1:] {
			values := findings.Values{
				"server": p.Addr.String(), "requested": p.clientText(),
				"issuer": strconv.Quote(p.Certificate.Issuer), "otherIssuer": strconv.Quote(q.Certificate.Issuer),
			}
			switch {
			case p.Certificate.Issuer == q.Certificate.Issuer:
			case p.Name == q.Name:
				add(findings.New(findings.CertificateDiffersByAddress, values.With("other", q.Addr.String())))
			case p.Addr == q.Addr && p.Name != "" && q.Name != "":
				add(findings.New(findings.CertificateDiffersByName, values.With("other", q.clientText())))
			}
		}
	}
	return matches
}
