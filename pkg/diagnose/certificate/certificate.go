// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// presented is the certificate that an API server presents, and what the service on this
// host observed about it.
type presented struct {
	prober.CertificateResult

	observed report.Certificate // zero: nothing
}

// asReported returns the certificate as the service reports it, with the failed attempts to
// renew it and those that are left at a time.
func (p presented) asReported(now time.Time) report.Certificate {
	c := report.Certificate{
		Address: p.Addr.String(), Name: p.Name, Issuer: p.Certificate.Issuer, Serial: p.Certificate.Serial,
		NotBefore: p.Certificate.NotBefore, NotAfter: p.Certificate.NotAfter,
	}
	if p.observed.Serial == c.Serial && p.observed.NotAfter.Equal(c.NotAfter) {
		o := p.observed
		c.FailedRenewals, c.FirstFailure, c.LastFailure = o.FailedRenewals, o.FirstFailure, o.LastFailure
	}
	return c.WithAttemptsLeft(now)
}

// clientText describes the clients that use the name.
func (p presented) clientText() string {
	if p.Name == "" {
		return "clients without SNI"
	}
	return p.Name
}

// describe describes the certificate, its clients and its renewal.
func (p presented) describe(now time.Time) string {
	return fmt.Sprintf("for %s: issued by %q, until %s%s", p.clientText(), p.Certificate.Issuer,
		p.Certificate.NotAfter.UTC().Format(time.DateOnly), p.renewalText(now))
}

// renewalText describes the renewal after a separator. It is empty before the renewal is due.
func (p presented) renewalText(now time.Time) string {
	if text := p.asReported(now).DescribeRenewal(now); text != "" {
		return "; " + text
	}
	return ""
}

// Requests are the requests to API servers for their certificates, for each name and
// without one.
func Requests(servers []netip.Addr, names []string) []protocol.CertificateRequest {
	var all []protocol.CertificateRequest
	for _, addr := range servers {
		for _, name := range append(slices.Clone(names), "") {
			all = append(all, protocol.CertificateRequest{Addr: netip.AddrPortFrom(addr, prober.APIPort), Name: name})
		}
	}
	return all
}

// Check evaluates the results of the requests. held are the VIPs on this host. internal is
// the name by which the kubelet of this host reaches the API, api-int.<cluster>; empty if it
// uses another name. observed are the certificates in the report of the service.
func Check(
	results []prober.CertificateResult, held []netip.Addr, internal string, observed []report.Certificate, now time.Time,
) result.Result {
	if len(results) == 0 {
		return result.Nothing("there is no VIP to check")
	}
	matches, unreachable := unreachableServers(results, held)
	var lost result.Subjects
	var certificates, forNodes []presented
	for _, p := range results {
		switch {
		case p.Err == nil && internal != "" && p.Name == internal:
			forNodes = append(forNodes, presented{CertificateResult: p})
		case p.Err == nil:
			certificates = append(certificates, newPresented(p, observed))
		case !slices.Contains(unreachable, p.Addr):
			lost.Skip(p.Addr, "%v", p.Err)
		}
	}
	switch {
	case len(certificates) == 0 && len(matches) == 0:
		return result.Skip("no API server presents a certificate: %s", lost.NotChecked())
	case len(certificates) == 0:
		return result.Of(matches...)
	}
	matches = append(matches, judgeAll(certificates, now)...)
	matches = append(matches, judgeInternal(certificates, forNodes, internal)...)
	return result.PassUnless(matches, "%s", certificates[0].describe(now)).WithNotChecked(lost.NotChecked())
}

// newPresented adds what the service observed at a VIP for the same name.
func newPresented(p prober.CertificateResult, observed []report.Certificate) presented {
	i := slices.IndexFunc(observed, func(c report.Certificate) bool {
		return c.Name == p.Name && c.Serial == p.Certificate.Serial
	})
	if i < 0 {
		return presented{CertificateResult: p}
	}
	return presented{p, observed[i]}
}

// unreachableServers are the VIPs on this host whose API server answered no request for a
// certificate.
func unreachableServers(
	results []prober.CertificateResult, held []netip.Addr,
) (matches []findings.Finding, at []netip.AddrPort) {
	for _, vip := range held {
		addr := netip.AddrPortFrom(vip, prober.APIPort)
		of := slices.DeleteFunc(slices.Clone(results), func(p prober.CertificateResult) bool { return p.Addr != addr })
		if len(of) > 0 && !slices.ContainsFunc(of, func(p prober.CertificateResult) bool { return p.Err == nil }) {
			values := findings.Values{"server": addr.String(), "error": of[0].Err.Error()}
			matches = result.Merge(matches, findings.New(findings.APIServerUnreachable, values), addr)
			at = append(at, addr)
		}
	}
	return matches, at
}

// identity distinguishes certificates.
func (p presented) identity() string { return p.Certificate.Issuer + "\n" + p.Certificate.Serial }

// judgeInternal finds a certificate of an external name that API servers present for the
// internal name too, and one that is valid for it. Without namedCertificates, each API server
// presents its own certificate for each of the two names.
func judgeInternal(external, forNodes []presented, internal string) []findings.Finding {
	if internal == "" {
		return nil
	}
	var matches []findings.Finding
	judged := make(map[netip.AddrPort]bool) // one name of a server is sufficient
	for _, p := range external {
		if p.Name == "" || judged[p.Addr] {
			continue
		}
		replaces := slices.ContainsFunc(forNodes, func(q presented) bool {
			return q.Addr == p.Addr && q.identity() == p.identity()
		})
		id := findings.CertificateReplacesInternal
		if !replaces {
			id = findings.CertificateInternalName
		}
		if replaces || slices.Contains(p.Certificate.Names, internal) {
			matches = result.Merge(matches, p.newFinding(id, findings.Values{"internal": internal}), p.Addr)
			judged[p.Addr] = true
		}
	}
	return matches
}

// judgeAll evaluates each certificate once, and then the differences.
func judgeAll(all []presented, now time.Time) []findings.Finding {
	var matches []findings.Finding
	dated, named := make(map[string]bool), make(map[string]bool)
	for _, p := range all {
		identity := p.identity()
		if !named[identity+"\n"+p.Name] && p.Name != "" && !p.Certificate.CoversName {
			matches = append(matches, p.newFinding(findings.CertificateNameMissing, nil))
		}
		if !dated[identity] {
			matches = append(matches, verdict.Certificate(p.asReported(now), now)...)
		}
		named[identity+"\n"+p.Name], dated[identity] = true, true
	}
	return append(matches, issuerDifferences(all)...)
}

func (p presented) newFinding(id findings.ID, values findings.Values) findings.Finding {
	return findings.New(id, values.With("server", p.Addr.String()).With("requested", p.clientText()).
		With("issuer", strconv.Quote(p.Certificate.Issuer)))
}

// issuerDifferences compares the issuers of one name at several addresses. One pair is sufficient.
func issuerDifferences(all []presented) []findings.Finding {
	for i, p := range all {
		for _, q := range all[i+1:] {
			if p.Name == q.Name && p.Certificate.Issuer != q.Certificate.Issuer {
				return []findings.Finding{p.newFinding(findings.CertificateDiffersByAddress, findings.Values{
					"other": q.Addr.String(), "otherIssuer": strconv.Quote(q.Certificate.Issuer),
				})}
			}
		}
	}
	return nil
}
