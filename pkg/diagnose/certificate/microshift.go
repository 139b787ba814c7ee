// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
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
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// maxNames bounds the names that are queried at MicroShift's API server. With the address of each of
// two nodes, the prober sends all queries at once.
const maxNames = 7

// Issuers of the certificates of MicroShift's API server (pkg/cmd/init.go there). A time may follow,
// as in OpenShift. Names are sufficient here, because the result proves nothing.
const (
	ownSigner      = "kube-apiserver-"
	externalSigner = "kube-apiserver-external-signer" // external clients trust it
)

func isOwn(issuer string) bool { return strings.HasPrefix(issuer, ownSigner) }

// certificateClient is an external client of the API server.
type certificateClient struct {
	protocol.CertificateRequest

	hasNamedCertificate bool // the administrator configured a certificate for the name
}

func (c certificateClient) displayName() string {
	if c.isAddress() {
		return c.Name + " (without SNI)"
	}
	return c.Name
}

func (c certificateClient) isAddress() bool {
	_, err := netip.ParseAddr(c.Name)
	return err == nil
}

// MicroShift is MicroShift's API server and its clients.
type MicroShift struct {
	Host    network.Host
	Names   []microshift.Name // of external clients
	Omitted error             // why some names are unknown
	NodeIPs []netip.Addr
}

// Request requests certificates.
type Request func(context.Context, []protocol.CertificateRequest) []prober.CertificateResult

// Check checks the certificates that MicroShift's API server presents to external clients.
func (m MicroShift) Check(ctx context.Context, request Request) result.Result {
	clients, omitted := m.clients()
	requests := make([]protocol.CertificateRequest, len(clients))
	for i, c := range clients {
		requests[i] = c.CertificateRequest
	}
	var all result.Subjects
	seen := make(map[string]bool) // certificates whose dates are evaluated, findings, and silent servers
	first := func(key string) bool { before := seen[key]; seen[key] = true; return !before }
	for i, p := range request(ctx, requests) {
		c := clients[i]
		if p.Err != nil {
			if first(p.Addr.String()) {
				values := findings.Values{"server": p.Addr.String(), "error": p.Err.Error()}
				all.FindAt(findings.New(findings.MicroShiftAPIServerUnreachable, values), p.Addr)
			}
			continue
		}
		if f, ok := c.judge(p.Certificate); !ok {
			all.Pass(result.Label(c.displayName()), "issued by %q, until %s", p.Certificate.Issuer,
				p.Certificate.NotAfter.UTC().Format(time.DateOnly))
		} else if first(f.String()) {
			all.Find(f)
		}
		if first(p.Certificate.Issuer + "\n" + p.Certificate.Serial) {
			all.Find(c.judgeDates(p, time.Now())...)
		}
	}
	return all.Result("no time left for the check").WithNotChecked(strings.Join(omitted, "; "))
}

// clients are all clients to check, and the ones that are left out.
func (m MicroShift) clients() (all []certificateClient, omitted []string) {
	add := func(at netip.Addr, name string, hasCertificate bool) {
		request := protocol.CertificateRequest{Addr: netip.AddrPortFrom(at, prober.APIPort), Name: name}
		c := certificateClient{request, hasCertificate}
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
	for _, node := range m.NodeIPs {
		for _, n := range names {
			at := node
			if addr, err := netip.ParseAddr(n.Name); err == nil {
				if m.Host.Has(addr) {
					at = addr
				} else if addr.Is4() != node.Is4() {
					continue // clients of that address reach the other node address
				}
			}
			add(at, n.Name, n.HasCertificate)
		}
		add(node, node.String(), false)
	}
	return all, omitted
}

// judge returns the finding about a client's certificate, if there is one.
func (c certificateClient) judge(got *protocol.Certificate) (findings.Finding, bool) {
	var id findings.ID
	switch {
	case c.hasNamedCertificate && isOwn(got.Issuer):
		id = findings.MicroShiftNamedCertificateIgnored
	case !got.CoversName:
		id = findings.MicroShiftNameMissing
	case isOwn(got.Issuer) && !strings.HasPrefix(got.Issuer, externalSigner):
		id = findings.MicroShiftExternalClientGetsInternal
	default:
		return findings.Finding{}, false
	}
	f := findings.New(id, findings.Values{
		"server": c.Addr.String(), "requested": c.displayName(), "issuer": strconv.Quote(got.Issuer),
	})
	if c.isAddress() {
		f.Level = findings.Warning // clients can use other names
	}
	return f, true
}

// judgeDates evaluates the remaining lifetime of a certificate. MicroShift renews its own
// certificates four months before they expire, but not the administrator's certificates.
func (c certificateClient) judgeDates(p prober.CertificateResult, now time.Time) []findings.Finding {
	all := verdict.Certificate(presented{CertificateResult: p}.asReported(now), now)
	for i, f := range all {
		if isOwn(p.Certificate.Issuer) && f.ID != findings.CertificateNotYetValid {
			all[i].Remediation = "MicroShift issued it: check the host's clock, then restart MicroShift, " +
				"which renews the certificate. Its journal shows why it was not renewed automatically."
			all[i].Commands = []string{
				"date --utc", "journalctl -u microshift -n 50 --no-pager", "systemctl restart microshift",
			}
		}
	}
	return all
}
