// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// serviceName is the API server's name for internal clients.
	serviceName = "kubernetes.default.svc"
	servicePort = 443
)

// signer is a CA of MicroShift that signs certificates of its API server
// (pkg/cmd/init.go there).
type signer string

const (
	externalSigner  signer = "kube-apiserver-external-signer"
	localhostSigner signer = "kube-apiserver-localhost-signer"
	serviceSigner   signer = "kube-apiserver-service-network-signer"
	otherSigner     signer = "" // a certificate of the administrator
)

// signerOf distinguishes the signers by name. Names are sufficient here, because the
// result proves nothing.
func signerOf(issuer string) signer {
	name, _, _ := strings.Cut(issuer, "@") // a time may follow, as in OpenShift
	for _, s := range []signer{externalSigner, localhostSigner, serviceSigner} {
		if name == string(s) {
			return s
		}
	}
	return otherSigner
}

// clientGroup is the group of clients that trust a signer.
func (s signer) clientGroup() string {
	switch s {
	case externalSigner:
		return "external clients"
	case localhostSigner:
		return "localhost"
	case serviceSigner:
		return "the service network"
	default:
		return "clients that trust that issuer"
	}
}

// certificateClient is a client of the API server.
type certificateClient struct {
	protocol.CertificateRequest

	internal            bool
	hasNamedCertificate bool // the administrator has configured a certificate for the name
}

func (c certificateClient) displayName() string {
	if _, err := netip.ParseAddr(c.Name); err == nil {
		return c.Name + " (without SNI)"
	}
	return c.Name
}

// checkMicroShiftCertificate checks the certificates that MicroShift's API server
// presents to external and internal clients.
func checkMicroShiftCertificate(ctx context.Context, h *host) Result {
	clients, omitted := h.certificateClients()
	questions := make([]protocol.CertificateRequest, len(clients))
	for i, c := range clients {
		questions[i] = c.CertificateRequest
	}
	answers := queryServers(ctx, questions, h.prober.Certificates)
	expired := 0
	var findings []findings.Finding
	var noResponse []prober.CertificateResult
	var texts groupedTexts
	dated := make(map[string]bool)
	for i, p := range answers {
		c := clients[i]
		if p.Err != nil {
			switch {
			case errors.Is(p.Err, errTimeUp):
				expired++
			case c.isService():
				texts.add(p.Addr, "not checked, because only pods can reach it (%v)", p.Err)
			default:
				noResponse = append(noResponse, p)
			}
			continue
		}
		if f, ok := c.judge(p.Certificate); ok {
			findings = appendUnique(findings, f)
		} else {
			texts.add(label(c.displayName()), "issued by %q, until %s", p.Certificate.Issuer, p.Certificate.NotAfter.UTC().Format(time.DateOnly))
		}
		if indexes := p.Certificate.Issuer + "\n" + p.Certificate.Serial; !dated[indexes] {
			dated[indexes] = true
			findings = append(findings, c.judgeDates(p, time.Now())...)
		}
	}
	for _, p := range noResponse {
		findings = appendUnreachable(findings, p)
	}
	if expired > 0 {
		omitted = append(omitted, fmt.Sprintf("%d more queries, for lack of time", expired))
	}
	return findingsResult(findings, "%v", &texts).withNotChecked(strings.Join(omitted, "; "))
}

// errTimeUp: the time was up before the response.
var errTimeUp = errors.New("no time left")

// slowAnswer is the time after which a server counts as unresponsive. Servers that
// respond, even with an error, are faster.
const slowAnswer = time.Second

// queryServers sends one query to each server first, and the others to the servers that
// respond. Otherwise a server that drops packets would use up the time of all. Queries
// that are not sent get the error of the first one.
func queryServers(
	ctx context.Context, questions []protocol.CertificateRequest, query func(context.Context, []protocol.CertificateRequest) []prober.CertificateResult,
) []prober.CertificateResult {
	answers := make([]prober.CertificateResult, len(questions))
	send := func(indexes []int) {
		batch := make([]protocol.CertificateRequest, len(indexes))
		for i, at := range indexes {
			batch[i] = questions[at]
		}
		for i, p := range query(ctx, batch) {
			answers[indexes[i]] = p
		}
	}
	first := make(map[netip.AddrPort]int)
	var initial, others []int
	for i, q := range questions {
		if _, known := first[q.Addr]; !known {
			first[q.Addr] = i
			initial = append(initial, i)
		}
	}
	started := time.Now()
	send(initial)
	for i, q := range questions {
		if index := first[q.Addr]; index == i {
			continue
		} else if err := answers[index].Err; err != nil && answers[index].CheckedAt.Sub(started) > slowAnswer {
			answers[i] = prober.CertificateResult{CertificateRequest: q, Err: err, CheckedAt: answers[index].CheckedAt}
		} else {
			others = append(others, i)
		}
	}
	send(others)
	for _, i := range others {
		if answers[i].Err != nil && ctx.Err() != nil {
			answers[i].Err = errTimeUp // the server has responded before
		}
	}
	return answers
}

// appendUnreachable adds the finding about a server that presents no certificate, once
// for all its queries.
func appendUnreachable(matches []findings.Finding, p prober.CertificateResult) []findings.Finding {
	at := p.Addr.String()
	if slices.ContainsFunc(matches, func(f findings.Finding) bool {
		return f.ID == findings.MicroShiftAPIServerUnreachable && strings.Contains(f.Message, at)
	}) {
		return matches
	}
	return mergeFinding(matches, findings.New(findings.MicroShiftAPIServerUnreachable, findings.Values{"server": at, "error": p.Err.Error()}), p.Addr)
}

type label string

func (n label) String() string { return string(n) }

// appendUnique adds a finding unless it is in the list.
func appendUnique(matches []findings.Finding, f findings.Finding) []findings.Finding {
	if slices.ContainsFunc(matches, func(g findings.Finding) bool { return g.ID == f.ID && g.Message == f.Message }) {
		return matches
	}
	return append(matches, f)
}

// certificateClients are all clients to check, and the ones that are left out.
func (h *host) certificateClients() (all []certificateClient, omitted []string) {
	add := func(at netip.Addr, port uint16, name string, internal, hasCertificate bool) {
		c := certificateClient{protocol.CertificateRequest{Addr: netip.AddrPortFrom(at, port), Name: name}, internal, hasCertificate}
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	e := h.microShiftState.computed
	names, why := h.externalNames()
	if why != nil {
		omitted = append(omitted, why.Error())
	}
	if over := len(names) - maxMicroShiftNames; over > 0 {
		omitted = append(omitted, fmt.Sprintf("%d more names", over))
		names = names[:maxMicroShiftNames]
	}
	for _, node := range e.NodeIPs {
		for _, n := range names {
			at := node
			if addr, err := netip.ParseAddr(n.name); err == nil {
				if h.hasAddress(addr) {
					at = addr
				} else if addr.Is4() != node.Is4() {
					continue // clients of that address reach the other node address
				}
			}
			add(at, prober.APIPort, n.name, false, n.hasCertificate)
		}
		add(node, prober.APIPort, node.String(), false, false)
	}
	if len(e.Internal) == 0 || !e.ServiceIP.IsValid() {
		return all, omitted
	}
	// Connections of pods to the service arrive at this address.
	if internal := e.Internal[0]; h.hasAddress(internal) {
		add(internal, prober.APIPort, serviceName, true, false)
		add(internal, prober.APIPort, e.ServiceIP.String(), true, false)
	} else {
		omitted = append(omitted, fmt.Sprintf("%v, which internal clients use, is not on this host", internal))
	}
	add(e.ServiceIP, servicePort, e.ServiceIP.String(), true, false)
	return all, omitted
}

func (h *host) hasAddress(addr netip.Addr) bool {
	return slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == addr })
}

// isService reports whether the address is the service's, which only pods may reach.
func (c certificateClient) isService() bool { return c.Addr.Port() == servicePort }

// judge returns the finding about a client's certificate, if there is one.
func (c certificateClient) judge(got *protocol.Certificate) (findings.Finding, bool) {
	by := signerOf(got.Issuer)
	find := func(id findings.ID) (findings.Finding, bool) {
		f := findings.New(id, findings.Values{"server": c.Addr.String(), "requested": c.displayName(), "issuer": strconv.Quote(got.Issuer), "domain": by.clientGroup()})
		if _, err := netip.ParseAddr(c.Name); err == nil && !c.internal {
			f.Level = findings.Warning // clients have names too
		}
		return f, true
	}
	switch {
	case c.internal && by != serviceSigner:
		return find(findings.MicroShiftInternalClientGetsExternal)
	case c.internal && !got.CoversName:
		return find(findings.MicroShiftServiceNameMissing)
	case c.internal:
		return findings.Finding{}, false
	case c.hasNamedCertificate && by != otherSigner:
		return find(findings.MicroShiftNamedCertificateIgnored)
	case !got.CoversName:
		return find(findings.MicroShiftNameMissing)
	case by == localhostSigner || by == serviceSigner:
		return find(findings.MicroShiftExternalClientGetsInternal)
	default:
		return findings.Finding{}, false
	}
}

// judgeDates evaluates the remaining lifetime of a certificate. MicroShift renews its
// own certificates, but not those of the administrator.
func (c certificateClient) judgeDates(p prober.CertificateResult, now time.Time) []findings.Finding {
	got := p.Certificate
	stage := report.CertificateStageAt(got.NotBefore, got.NotAfter, now)
	if signerOf(got.Issuer) == otherSigner || stage == report.CertificateNotYetValid {
		return presentedCertificate{p}.judgeDates(now)
	}
	values := findings.Values{
		"server": c.Addr.String(), "requested": c.displayName(), "issuer": strconv.Quote(got.Issuer),
		"date": got.NotAfter.UTC().Format(time.RFC3339), "left": report.Age(got.NotAfter.Sub(now)),
	}
	switch stage {
	case report.CertificateExpired:
		return []findings.Finding{findings.New(findings.MicroShiftCertificateExpired, values)}
	case report.CertificateUrgent, report.CertificateRenewalLate:
		return []findings.Finding{findings.New(findings.MicroShiftCertificateExpiresSoon, values)}
	default:
		return nil
	}
}
