// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/routeagent"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// cases returns the faults by the name of their Certificate. They occur at the same time in
// one cluster.
func cases() map[string]func(*failure) {
	return map[string]func(*failure){
		"pod-not-ready":        podNotReady,
		"route-late":           routeLate,
		"egress-blocked":       egressBlocked,
		"dns-ingress":          dnsIngress,
		"dns-other":            dnsOther,
		"dns-none":             dnsNone,
		"other-app-404":        otherApplication404,
		"other-app-200":        otherApplication200,
		"other-app-cut":        otherApplicationCut,
		"rate-limited":         rateLimited,
		"order-invalid":        orderInvalid,
		"token-replaced":       tokenReplaced,
		"account-key-replaced": accountKeyReplaced,
		"wildcard":             wildcardCertificate,
		"bad-challenge":        badChallenges,
		"without-self-check":   withoutSelfCheck,
		"denied":               denied,
		"other-class":          otherClass,
	}
}

// Texts of the service's log.
const (
	selfCheck  = "cert-manager's self check"
	validation = "CA (Pebble) 3/3 → 200"
	// The first client in the entry about the end of a challenge: cert-manager, or check if
	// neither cert-manager nor a CA sent a request.
	endSelfCheck = "has ended: self check "
	endOnlyCheck = "has ended: http01-proxyd check "
)

// TestFailures has every fault lead from the texts of cert-manager to the finding of check or
// the entry of the journal, and then to a valid certificate by the documented fix.
func TestFailures(t *testing.T) {
	s := startShared(t, lab.Layout{Families: lab.IPv4Only, VIPs: 3}, func(l *lab.Lab) []string {
		names := []string{"api." + l.Domain, "ingress-down." + l.Domain, "expired." + l.Domain, l.API.V4.String()}
		for name := range cases() {
			names = append(names, name+"."+l.Domain)
		}
		return names
	})
	// The cases wait most of the time: t.Parallel would run two of them.
	var all sync.WaitGroup
	for name, test := range cases() {
		all.Go(func() {
			t.Run(name, func(t *testing.T) { test(s.failure(t, name)) })
		})
	}
	all.Wait()
	t.Run("ingress-down", func(t *testing.T) { ingressDown(s.failure(t, "ingress-down")) })
	t.Run("expired", func(t *testing.T) { expired(s.failure(t, "expired")) })
	t.Run("ends", func(t *testing.T) { s.failure(t, "ends").compareEnds() })
	t.Run("table", func(t *testing.T) { s.compareTable(t) })
	for _, service := range s.services {
		must(t, service.Alive())
	}
}

// expectRouteMissing creates a Certificate whose challenge has no route, and returns the
// Challenge.
func (f *failure) expectRouteMissing() *cmacme.Challenge {
	f.t.Helper()
	f.resolve(f.lab.API)
	f.create(f.name)
	c := f.challenge()
	f.selfCheckFails(`wrong status code '503', expected '200'$`)
	f.expectFinding("route-missing", "--token", c.Spec.Token)
	f.expectJournal(c.Spec.Token, selfCheck, "got 503", "route-missing")
	return c
}

// podNotReady creates a solver Pod that does not start, as with an image that cannot be pulled.
func podNotReady(f *failure) {
	f.createIssuer(f.t, f.name, holdPods())
	c := f.expectRouteMissing()
	f.expectChain(3, "! Challenge ", "wrong status code '503'", "! Pod ", "not ready", "✗ Node ", "the last got 503",
		"[route-missing]")
	f.start(c)
	f.awaitReady()
	f.expectChain(0, "✓ No problem was found", "✓ Certificate openshift-config/pod-not-ready: ready", "✓ Secret ",
		"✓ ClusterIssuer ", "✓ CertificateRequest pod-not-ready-1: issued", "✓ Order ", ": valid")
	f.expectEnd(c, endSelfCheck, validation)
}

// routeLate has a route that follows 40 s after its Ingress. No fix is necessary.
func routeLate(f *failure) {
	f.createIssuer(f.t, f.name, func(i *cmacme.ACMEIssuer) {
		i.Solvers[0].HTTP01.Ingress.IngressTemplate = &cmacme.ACMEChallengeSolverHTTP01IngressTemplate{
			ACMEChallengeSolverHTTP01IngressObjectMeta: cmacme.ACMEChallengeSolverHTTP01IngressObjectMeta{
				Annotations: map[string]string{routeagent.DelayAnnotation: "40s"},
			},
		}
	})
	c := f.expectRouteMissing()
	f.awaitReady()
	f.expectJournal(c.Spec.Token, selfCheck, "(before: 503 route-missing)")
}

// otherClass has a solver whose Ingress no router serves.
func otherClass(f *failure) {
	setClass := func(class string) func(*cmacme.ACMEIssuer) {
		return func(i *cmacme.ACMEIssuer) { i.Solvers[0].HTTP01.Ingress.IngressClassName = &class }
	}
	f.createIssuer(f.t, f.name, setClass("other"))
	f.expectRouteMissing()
	f.expectChain(3, "! Challenge ", "wrong status code '503'", "✓ Pod ", "✓ Ingress ", "the last got 503",
		"[route-missing]")
	f.changeIssuer(f.t, f.name, setClass(cluster.IngressClass))
	f.awaitReady()
}

// egressBlocked has packets to port 80 of the second API VIP dropped on their way out of
// cert-manager's pod. The rule stands for a NetworkPolicy, which no agent implements. The
// other cases use another API VIP.
func egressBlocked(f *failure) {
	vip := f.lab.MoreAPI[0]
	remove := drop(f.t, f.lab.Pods[0], "drop", vip.V4)
	f.resolve(vip)
	f.create(sharedIssuer)
	c := f.challenge()
	f.selfCheckFails(`failed to perform self check GET request .*: i/o timeout$`)
	f.expectFinding("self-check-missing", "--token", c.Spec.Token)
	f.expectNoSelfCheck(c)
	f.expectChain(3, "! Challenge ", "i/o timeout", "no request for this", "[challenge-pending]",
		"The nodes report no request")
	remove()
	f.awaitReady()
	// check got 200 before. So the self check has no entry of its own.
	f.expectEnd(c, endSelfCheck, validation)
}

// withoutSelfCheck has a solver for which cert-manager waits instead of a self check. The CRDs of cert-manager
// before 1.21 drop that field.
func withoutSelfCheck(f *failure) {
	f.createIssuer(f.t, f.name, func(i *cmacme.ACMEIssuer) {
		i.Solvers[0].WaitInsteadOfSelfCheck = &metav1.Duration{Duration: 20 * time.Second}
	})
	f.resolve(f.lab.API)
	f.create(f.name)
	c := f.challenge()
	if f.release != cluster.CertManager121 {
		f.awaitReady()
		f.expectEnd(c, endSelfCheck, validation)
		return
	}
	f.expect("^Waiting .* before accepting HTTP-01 challenge without self-check$")
	f.awaitReady()
	f.expectNoSelfCheck(c)
}

// dnsIngress has a name that resolves to the ingress VIP only. The router answers the
// challenge there, so that the certificate is issued without the service, which gets only the
// requests of check.
func dnsIngress(f *failure) {
	f.resolve(f.lab.Ingress)
	f.create(sharedIssuer)
	c := f.challenge()
	f.expectFinding("dns-other-address", "--token", c.Spec.Token)
	f.awaitReady()
	f.expectNoSelfCheck(c)
	f.expectEnd(c, endOnlyCheck)
	f.resolve(f.lab.API)
	f.expectNoFinding("dns-other-address")
}

// dnsOther has a name that resolves to a host without a listener.
func dnsOther(f *failure) {
	f.resolve(lab.Pair{V4: f.lab.ControlPlane[1].Addresses.V4})
	f.create(sharedIssuer)
	c := f.challenge()
	f.selfCheckFails(`failed to perform self check GET request .*: connect: connection refused$`)
	f.expectFinding("dns-other-address", "--token", c.Spec.Token)
	f.resolve(f.lab.API)
	f.awaitReady()
}

// dnsNone has a name without a record. A cluster's DNS server answers NXDOMAIN, and
// cert-manager writes "no such host". The lab's server answers with an empty referral.
func dnsNone(f *failure) {
	f.create(sharedIssuer)
	c := f.challenge()
	f.selfCheckFails(`failed to perform self check GET request .*: (no such host|lame referral)$`)
	f.expectFinding("dns-no-record", "--token", c.Spec.Token)
	f.resolve(f.lab.API)
	f.awaitReady()
}

// otherApplication404 has an application with a route for all paths of the name. It does
// not have the token.
func otherApplication404(f *failure) {
	f.otherApplication(http.NotFoundHandler(), `wrong status code '404', expected '200'$`, "token-unknown")
}

// otherApplication200 has an application that answers each path with its page.
func otherApplication200(f *failure) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
	})
	text := `did not get expected response ".*" when querying endpoint$`
	if f.release != cluster.CertManager121 {
		text = `did not get expected response when querying endpoint, expected ".*" but got: <!doctype html>.*$`
	}
	f.otherApplication(page, text, "response-not-key")
}

// otherApplicationCut has an application that ends each response within its body.
func otherApplicationCut(f *failure) {
	cut := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "the beginning")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	f.otherApplication(cut, `wrong status code '502', expected '200'$`, "response-truncated")
}

func (f *failure) otherApplication(handler http.Handler, text, finding string) {
	f.t.Helper()
	w := f.lab.Worker
	address := w.Addresses.V4
	listener := must1(w.Listen(run, netip.AddrPortFrom(address, 0).String()))(f.t)
	stop := lab.Serve(listener, nil, handler)
	defer func() { must(f.t, stop()) }()
	port := must1(netip.ParseAddrPort(listener.Addr().String()))(f.t).Port()
	route := must1(w.AddRouteTo(run, f.host, "", address, int(port)))(f.t)
	f.resolve(f.lab.API)
	f.create(sharedIssuer)
	c := f.challenge()
	f.selfCheckFails(text)
	f.expectFinding(finding, "--token", c.Spec.Token)
	must(f.t, route.Remove(run))
	f.awaitReady()
}

// rateLimited has a CA that rejects orders with the error of a rate limit. Pebble has no
// limits: a server in front of it answers, in the words of Let's Encrypt.
func rateLimited(f *failure) {
	ca, trust := f.rateLimit()
	f.createIssuer(f.t, f.name, func(i *cmacme.ACMEIssuer) { i.Server, i.CABundle = ca.String(), trust })
	f.resolve(f.lab.API)
	ca.limited.Store(true)
	f.create(f.name)
	f.expect(`^Failed to create Order: 429 urn:ietf:params:acme:error:rateLimited: `)
	f.expect(`order is in "errored" state: `)
	f.expectChain(3, "✗ Certificate openshift-config/rate-limited: failed", "✗ Order ", ": errored", "[ca-rate-limited]")
	ca.limited.Store(false)
	f.renewAfterFailure()
	f.awaitReady()
}

// limitedCA is the URL of an ACME directory with a switch for its limit.
type limitedCA struct {
	*url.URL

	limited *atomic.Bool
}

// rateLimit starts the server in front of the CA until the test ends.
func (f *failure) rateLimit() (ca limitedCA, trust []byte) {
	f.t.Helper()
	directory, _ := f.lab.Internet.Directory()
	ca = limitedCA{must1(url.Parse(directory))(f.t), &atomic.Bool{}}
	address := f.lab.Internet.Addresses.V4
	authority := must1(lab.NewAuthority("rate limit"))(f.t)
	identity := must1(authority.Issue(lab.ServerCertificate{Addresses: []netip.Addr{address}}))(f.t)
	ca.Host = serveACME(f.t, f.lab, netip.AddrPortFrom(address, 0), identity, func(to http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/order-plz" || !ca.limited.Load() {
				to.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w,
				`{"type": "urn:ietf:params:acme:error:rateLimited", "status": 429, "detail": "too many failed authorizations (5) for \"%s\" in the last 1h0m0s, retry after 2026-11-24 12:00:00 UTC: see https://letsencrypt.org/docs/rate-limits/#authorization-failures-per-identifier-per-account"}`, f.host)
		})
	}).String()
	return ca, authority.Certificate()
}

// orderInvalid has a firewall that stops the CA, but not the self check.
func orderInvalid(f *failure) {
	vip := f.lab.MoreAPI[1]
	remove := drop(f.t, f.lab.Internet.Node, "reject with tcp reset", vip.V4)
	f.resolve(vip)
	f.create(sharedIssuer)
	c := f.challenge()
	f.expect(`^Error accepting authorization: acme: authorization error for ` + f.host + `: `)
	f.expect(`order is in "invalid" state: `)
	f.expectJournal(c.Spec.Token, selfCheck, "got 200")
	f.expectChain(3, "✗ Order ", ": invalid", "✗ Challenge ", "none of a CA", "[order-failed]", "oc http01 check\n")
	remove()

	f.renewAfterFailure()
	f.awaitReady()
	f.expectEnd(c, endSelfCheck)
}

// deleteOrder deletes the Order of a Challenge.
func (f *failure) deleteOrder(c *cmacme.Challenge) {
	f.t.Helper()
	must(f.t, f.cluster.CertManager.AcmeV1().Orders(c.Namespace).Delete(run, c.OwnerReferences[0].Name,
		metav1.DeleteOptions{}))
}

// tokenReplaced has the Order deleted while a self check runs. The next Order has a
// Challenge with another token.
func tokenReplaced(f *failure) {
	f.resolve(f.lab.API)
	f.create(sharedIssuer)
	c := f.challenge()
	f.expectJournal(c.Spec.Token, selfCheck, "got 200") // the first of the five requests
	f.deleteOrder(c)
	next := f.challenge(c)
	if next.Spec.Token == c.Spec.Token {
		f.t.Errorf("the token is still %s", c.Spec.Token)
	}
	f.awaitReady()
	f.expectEnd(c, endSelfCheck, validation)
	f.expectEnd(next, endSelfCheck, validation)
}

// accountKeyReplaced has another key for the account than the one that the order belongs
// to.
func accountKeyReplaced(f *failure) {
	f.createIssuer(f.t, f.name, holdPods())
	f.resolve(f.lab.API)
	f.create(f.name)
	c := f.challenge()
	f.selfCheckFails(`wrong status code '503', expected '200'$`)
	before := must1(f.messages.issuers.Get(f.name))(f.t).Status.ACME.LastPrivateKeyHash
	key := must1(rsa.GenerateKey(rand.Reader, 2048))(f.t)
	secrets := f.cluster.Kube.CoreV1().Secrets(cluster.OperandNamespace)
	secret := must1(secrets.Get(run, cluster.AccountSecret(f.name), metav1.GetOptions{}))(f.t)
	secret.Data["tls.key"] = pem.EncodeToMemory(&pem.Block{
		Type:  "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key),
	})
	must1(secrets.Update(run, secret, metav1.UpdateOptions{}))(f.t)
	f.awaitIssuer(f.t, f.name, func(s *cmacme.ACMEIssuerStatus) bool { return s.LastPrivateKeyHash != before })
	f.start(c)
	f.expect(`urn:ietf:params:acme:error:`)
	f.expect(`order is in "errored" state: `)
	f.expectJournal(c.Spec.Token, selfCheck, "got 200")
	f.changeIssuer(f.t, f.name, setPodAnnotations(nil))
	f.renewAfterFailure()
	f.awaitReady()
}

// ingressDown has no router at the ingress VIPs. It affects all names, so no other case runs.
func ingressDown(f *failure) {
	f.createIssuer(f.t, f.name, holdPods())
	remove := drop(f.t, f.holder.Node, "reject with tcp reset", f.lab.AllIngress()...)
	f.resolve(f.lab.API)
	f.create(f.name)
	c := f.challenge()
	f.selfCheckFails(`wrong status code '502', expected '200'$`)
	f.expectFinding("ingress-refused", "--token", c.Spec.Token)
	f.expectJournal(c.Spec.Token, selfCheck, "got 502", "ingress-refused")
	remove()
	f.start(c)
	f.awaitReady()
}
