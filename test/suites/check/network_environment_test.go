// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const day = 24 * time.Hour

// TestClusterEnvironment puts faults into names, certificates, the network path and the
// clock.
func TestClusterEnvironment(t *testing.T) {
	c := healthy(t, nil)
	both := c.API
	named := func(p lab.Pair) func(*cluster) { return func(c *cluster) { c.publishName(p) } }
	nowhere := netip.MustParseAddr("192.0.2.77")
	c.runFaults(t, []faultCase{
		{name: "a name without addresses", inject: named(lab.Pair{}), want: []string{"dns-no-record"}},
		{name: "a name without AAAA", inject: named(lab.Pair{V4: both.V4}), want: []string{"dns-family-missing"}},
		{name: "a name without A", inject: named(lab.Pair{V6: both.V6}), want: []string{"dns-family-missing"}},
		{
			name: "an A record of another host", inject: named(lab.Pair{V4: c.Worker.Addresses.V4, V6: both.V6}),
			want: []string{"dns-other-address"},
			texts: map[string]string{"dns-other-address": "The A record of api.lab.test is 192.0.2.21, which is not an API " +
				"VIP, and http01-proxyd does not respond there (status 503)"},
		},
		{
			name: "an A record of an unused address", inject: named(lab.Pair{V4: nowhere, V6: both.V6}),
			want: []string{"dns-other-address"},
		},
		{
			name:   "an A record of an outside host that refuses connections",
			inject: named(lab.Pair{V4: c.Internet.Addresses.V4, V6: both.V6}),
			want:   []string{"dns-other-address"},
			texts: map[string]string{"dns-other-address": "is 198.51.100.10, which is not an API VIP, and http01-proxyd " +
				"does not respond there (it refuses connections)"},
		},
		{
			name: "no DNS server answers", want: []string{"dns-no-server"},
			inject: func(c *cluster) {
				c.replaceHostFile("resolv.conf", "nameserver 192.0.2.77\nnameserver fd4e:5f2a:9c01:1::77\n")
				c.replaceHostFile("chrony.conf", "server "+c.Internet.Addresses.V4.String()+"\n")
			},
		},
		{
			name: "a name that is not in the certificate", want: []string{"certificate-name-missing"},
			inject: presentCertificate(90*day, 80*day, "api.other.test"),
		},
		{
			name: "a certificate that is also for api-int", want: []string{"certificate-internal-name"},
			inject: presentCertificate(90*day, 80*day, apiName, internalName),
			texts: map[string]string{"certificate-internal-name": "presents for api.lab.test (issued by \"Lab CA\") is also " +
				"valid for api-int.lab.test."},
		},
		{
			name: "a named certificate for api-int", want: []string{"certificate-replaces-internal"},
			inject: func(c *cluster) {
				presentCertificate(90*day, 80*day, apiName)(c)
				c.replaceInternal()
			},
			texts: map[string]string{"certificate-replaces-internal": "192.0.2.5:6443 (also [fd4e:5f2a:9c01:1::5]:6443) " +
				"presents for api-int.lab.test the certificate of api.lab.test (issued by \"Lab CA\")."},
		},
		{
			name: "a named certificate for both", want: []string{"certificate-replaces-internal"},
			inject: func(c *cluster) {
				presentCertificate(90*day, 80*day, apiName, internalName)(c)
				c.replaceInternal()
			},
		},
		{name: "an expired certificate", want: []string{"certificate-expired"}, inject: presentCertificate(90*day, -time.Hour,
			apiName)},
		{
			name: "a certificate that is not valid yet", want: []string{"certificate-not-yet-valid"},
			inject: presentCertificate(80*day, 90*day, apiName),
		},
		{
			name: "less than a quarter of 90 days left", want: []string{"certificate-expires-soon"},
			inject: presentCertificate(90*day, 20*day, apiName),
		},
		{
			name: "less than a tenth of 90 days left", want: []string{"certificate-expiry-urgent"},
			inject: presentCertificate(90*day, 8*day, apiName),
		},
		{name: "less than a day of six left", want: []string{"certificate-expiry-urgent"}, inject: presentCertificate(6*day,
			23*time.Hour, apiName)},
		{name: "two days of six left", want: []string{}, inject: presentCertificate(6*day, 2*day, apiName)},
		{
			name: "one certificate over IPv4, another over IPv6", want: []string{"certificate-differs-by-address"},
			inject: func(c *cluster) {
				old, next := issue(c.t, "Lab CA", 90*day, 80*day, apiName), issue(c.t, "Another CA", 90*day, 80*day, apiName)
				c.presentBy(func(_ string, local netip.Addr) bool { return local.Is4() }, old, next)
			},
		},
		{
			name: "without a name the API server's own certificate", want: []string{},
			inject: func(c *cluster) {
				own, public := issue(c.t, "kube-apiserver", 30*day, 20*day, "kubernetes"), issue(c.t, "Lab CA", 90*day, 80*day,
					apiName)
				c.presentBy(func(name string, _ netip.Addr) bool { return name == apiName }, public, own)
			},
		},
		{
			name: "a black hole for whole packets", want: []string{"path-mtu-black-hole"},
			inject: func(c *cluster) {
				c.run(c.Worker.Node, "ip link set br-ex mtu 1400", "ip link set br-ex mtu 1500")
			},
		},
		{
			name: "a clock that is behind", want: []string{"clock-offset"},
			inject: shiftClock(2 * time.Minute),
			texts:  map[string]string{"clock-offset": "This host's clock is 2m0s behind the clock of 198.51.100.10"},
		},
		{
			name: "a clock that is ahead", want: []string{"clock-offset"},
			inject: shiftClock(-90 * time.Second),
			texts:  map[string]string{"clock-offset": "This host's clock is 1m30s ahead of the clock of 198.51.100.10"},
		},
		{name: "a clock that is a little off", want: []string{}, inject: shiftClock(30 * time.Second)},
	})
}

// TestRenewalAttempts holds that check reports the failed renewals that the service
// observed. The service does that within hours, so its report is changed on its way.
func TestRenewalAttempts(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	const life, left = 160 * time.Hour, 45 * time.Hour
	made := issue(t, "Lab CA", life, left, apiName)
	c.setCertificates(func(string, netip.Addr) *tls.Certificate { return made })
	leaf, err := x509.ParseCertificate(made.Certificate[0])
	must(t, err)
	failed := time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second)
	path := filepath.Join(t.TempDir(), "status.sock")
	socket, err := net.Listen("unix", path)
	must(t, err)
	defer socket.Close()
	go func() {
		for conn, err := socket.Accept(); err == nil; conn, err = socket.Accept() {
			reported, err := readReport(n.StatusSocket())
			if err == nil {
				reported["certificates"] = []map[string]any{{
					"address": c.API.V4.String() + ":6443", "name": apiName, "issuer": "Lab CA", "serial": leaf.SerialNumber.Text(16),
					"notBefore": leaf.NotBefore, "notAfter": leaf.NotAfter, "checked": failed, "failedRenewals": 1,
					"firstFailure": failed, "lastFailure": failed,
				}}
				_ = json.NewEncoder(conn).Encode(reported)
			}
			_ = conn.Close()
		}
	}()
	r := c.expectFindings(n, []string{"renewal-attempt-failed"}, "--status-socket", path)
	c.expectText(r, "renewal-attempt-failed", "was not renewed by an attempt at "+failed.Format(time.RFC3339),
		"failed renewal attempts: 1, with cert-manager's defaults, further attempts before the expiry: at most 6",
		"After the fix, request a new certificate")
	// Without the report of the service, the renewal time shows how many are left.
	r = c.expectFindings(n, []string{})
	if text := r.Check("certificate").Text; !strings.Contains(text,
		"; its renewal is due, with cert-manager's defaults, further attempts before the expiry: at most 7") {
		t.Errorf("certificate: %s", text)
	}
}

// readReport reads the report of a service from its status socket.
func readReport(socket string) (reported map[string]any, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	decoder := json.NewDecoder(conn)
	decoder.UseNumber()
	return reported, decoder.Decode(&reported)
}

// TestNoAPIServer stops the API server behind a VIP of this host.
func TestNoAPIServer(t *testing.T) {
	c := healthy(t, nil)
	must(t, c.env.servers[0].Close())
	r := c.expectFindings(c.holder(), []string{"api-server-unreachable"})
	c.expectText(r, "api-server-unreachable", "192.0.2.5:6443 (also [fd4e:5f2a:9c01:1::5]:6443)", "connection refused")
	text, code, err := c.holder().CheckText(t.Context(), shared.binary)
	must(t, err)
	if code != 0 || strings.Contains(text, "No problems") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestNameOfTheCertificate holds that check takes the API's name from the certificate when
// neither configuration nor kubeconfig has it.
func TestNameOfTheCertificate(t *testing.T) {
	c := healthy(t, nil)
	c.replaceHostFile("kubeconfig", "")
	c.publishName(lab.Pair{})
	r := c.expectFindings(c.standby(), []string{"dns-no-record"})
	c.expectText(r, "dns-no-record", "198.51.100.10 knows no address of api.lab.test")
}

// TestNothingAnswers holds that check ends in time and reports useful findings when the
// VIPs, the ingress, the DNS and the time servers do not answer and the service hangs.
func TestNothingAnswers(t *testing.T) {
	c := healthy(t, nil)
	c.freeze(c.Services[2])
	// Queries are lost without an error. VRRP and ARP continue to work.
	c.loadFaultRules(c.standby(), "chain output { type filter hook output priority raw; "+
		"oifname br-ex meta l4proto { tcp, udp } drop; icmp type echo-request drop; icmpv6 type echo-request drop; }")
	c.replaceHostFile("kubeconfig", "") // check must look for the name
	for _, flags := range [][]string{nil, {"--token", token}, {"--token", token, "--name", apiName}} {
		want := []string{
			"proxy-unreachable", "ingress-timeout", "service-unresponsive",
			"vip-test-not-sent",
		}
		if slices.Contains(flags, "--name") {
			want = append(want, "dns-no-server") // without --name there is no name to query
		}
		r := c.expectFindings(c.standby(), want, flags...)
		c.expectDuration(r)
	}
}

// presentCertificate has the API servers present a certificate for names, of whose
// lifetime left remains.
func presentCertificate(life, left time.Duration, names ...string) func(*cluster) {
	return func(c *cluster) {
		made := issue(c.t, "Lab CA", life, left, names...)
		c.setCertificates(func(string, netip.Addr) *tls.Certificate { return made })
	}
}

// replaceInternal has the API servers present the certificate of the API's name for api-int
// too until the test ends.
func (c *cluster) replaceInternal() {
	for _, a := range c.env.servers {
		a.ReplaceInternal(true)
		c.onCleanup(func(context.Context) error { a.ReplaceInternal(false); return nil })
	}
}

// presentBy has the API servers present the first certificate where is returns true, and
// otherwise the second.
func (c *cluster) presentBy(is func(name string, local netip.Addr) bool, first, second *tls.Certificate) {
	c.t.Helper()
	c.setCertificates(func(name string, local netip.Addr) *tls.Certificate {
		if is(name, local) {
			return first
		}
		return second
	})
}

// shiftClock shifts the time server's clock until the test ends.
func shiftClock(by time.Duration) func(*cluster) {
	return func(c *cluster) {
		c.env.clock.Shift(by)
		c.onCleanup(func(context.Context) error { c.env.clock.Shift(0); return nil })
	}
}

// setCertificates has all API servers present the certificates that f returns until the
// test ends.
func (c *cluster) setCertificates(f func(name string, local netip.Addr) *tls.Certificate) {
	c.t.Helper()
	good := issue(c.t, "Lab CA", 90*day, 80*day, apiName)
	for _, a := range c.env.servers {
		a.Present(f)
	}
	c.onCleanup(func(context.Context) error {
		for _, a := range c.env.servers {
			a.Present(func(string, netip.Addr) *tls.Certificate { return good })
		}
		return nil
	})
}

// replaceHostFile replaces a file of the standby node until the test ends.
func (c *cluster) replaceHostFile(name, text string) {
	c.t.Helper()
	must(c.t, c.standby().WriteHostFile(name, text))
	c.onCleanup(func(context.Context) error { return c.writeHostFiles(c.standby()) })
}
