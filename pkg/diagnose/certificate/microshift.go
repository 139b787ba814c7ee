// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	ms "github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// serviceName is the API server's name for internal clients.
	serviceName = "kubernetes.default.svc"
	servicePort = 443
	// maxNames bounds the names that are queried at MicroShift's API server.
	maxNames = 8
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

// MicroShift is MicroShift's API server and its clients.
type MicroShift struct {
	Host     network.Host
	Names    []microshift.Name // of external clients
	Omitted  error             // why some names are unknown
	Computed ms.Computed
}

// Check checks the certificates that MicroShift's API server presents to external and
// internal clients.
func (m MicroShift) Check(ctx context.Context, request Request) result.Result {
	clients, omitted := m.clients()
	requests := make([]protocol.CertificateRequest, len(clients))
	for i, c := range clients {
		requests[i] = c.CertificateRequest
	}
	expired := 0
	var all result.Subjects
	seen := make(map[string]bool) // certificates whose dates are evaluated, and findings
	first := func(key string) bool { before := seen[key]; seen[key] = true; return !before }
	var unreachable []prober.CertificateResult
	for i, p := range requestEach(ctx, requests, request) {
		c := clients[i]
		switch {
		case errors.Is(p.Err, errTimeUp):
			expired++
			continue
		case p.Err != nil && c.isService():
			all.Pass(p.Addr, "not checked, because only pods can reach it (%v)", p.Err)
			continue
		case p.Err != nil:
			if first(p.Addr.String()) { // one finding for all its requests
				unreachable = append(unreachable, p)
			}
			continue
		}
		if f, ok := c.judge(p.Certificate); !ok {
			all.Pass(result.Label(c.displayName()), "issued by %q, until %s", p.Certificate.Issuer, p.Certificate.NotAfter.UTC().Format(time.DateOnly))
		} else if first(f.String()) {
			all.Find(f)
		}
		if first(p.Certificate.Issuer + "\n" + p.Certificate.Serial) {
			all.Find(c.judgeDates(p, time.Now())...)
		}
	}
	for _, p := range unreachable {
		all.FindAt(findings.New(findings.MicroShiftAPIServerUnreachable, findings.Values{"server": p.Addr.String(), "error": p.Err.Error()}), p.Addr)
	}
	if expired > 0 {
		omitted = append(omitted, fmt.Sprintf("%d more queries, for lack of time", expired))
	}
	return all.Result("no time left for the check").WithNotChecked(strings.Join(omitted, "; "))
}

// errTimeUp: the time was up before the response.
var errTimeUp = errors.New("no time left")

// slowAnswer is the time after which a server counts as unresponsive. Servers that
// respond, even with an error, are faster.
const slowAnswer = time.Second

// Request requests certificates.
type Request func(context.Context, []protocol.CertificateRequest) []prober.CertificateResult

// requestEach sends one query to each server first, and the others to the servers that
// respond. Otherwise a server that drops packets would use up the time of all. Queries
// that are not sent get the error of the first one.
func requestEach(ctx context.Context, questions []protocol.CertificateRequest, query Request) []prober.CertificateResult {
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

// clients are all clients to check, and the ones that are left out.
func (m MicroShift) clients() (all []certificateClient, omitted []string) {
	add := func(at netip.Addr, port uint16, name string, internal, hasCertificate bool) {
		c := certificateClient{protocol.CertificateRequest{Addr: netip.AddrPortFrom(at, port), Name: name}, internal, hasCertificate}
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	names := m.Names
	if m.Omitted != nil {
		omitted = append(omitted, m.Omitted.Error())
	}
	if over := len(names) - maxNames; over > 0 {
		omitted = append(omitted, fmt.Sprintf("%d more names", over))
		names = names[:maxNames]
	}
	for _, node := range m.Computed.NodeIPs {
		for _, n := range names {
			at := node
			if addr, err := netip.ParseAddr(n.Name); err == nil {
				if m.Host.Has(addr) {
					at = addr
				} else if addr.Is4() != node.Is4() {
					continue // clients of that address reach the other node address
				}
			}
			add(at, prober.APIPort, n.Name, false, n.HasCertificate)
		}
		add(node, prober.APIPort, node.String(), false, false)
	}
	if len(m.Computed.Internal) == 0 || !m.Computed.ServiceIP.IsValid() {
		return all, omitted
	}
	// Connections of pods to the service arrive at this address.
	if internal := m.Computed.Internal[0]; m.Host.Has(internal) {
		add(internal, prober.APIPort, serviceName, true, false)
		add(internal, prober.APIPort, m.Computed.ServiceIP.String(), true, false)
	} else {
		omitted = append(omitted, fmt.Sprintf("%v, which internal clients use, is not on this host", internal))
	}
	add(m.Computed.ServiceIP, servicePort, m.Computed.ServiceIP.String(), true, false)
	return all, omitted
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
		return presented{CertificateResult: p}.judgeDates(now)
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
