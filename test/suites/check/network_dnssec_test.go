// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Modules of unbound: with and without DNSSEC validation.
const (
	validating    = "validator iterator"
	notValidating = "iterator"
)

// TestDNSSEC uses unbound as the DNS server, with a signed zone. check reports signatures that are
// not valid, if the server validates them.
func TestDNSSEC(t *testing.T) {
	c := healthy(t, nil)
	const bogus = "rejects the A record of api.lab.test, because its DNSSEC signatures are not valid"
	day := 24 * time.Hour
	serve := func(modules string, expires time.Duration, changed ...netip.Addr) func(*cluster) {
		return func(c *cluster) { c.serveSignedZone(modules, c.signZone(time.Now().Add(expires), changed)) }
	}
	c.runFaults(t, []faultCase{
		{name: "valid signatures", want: []string{}, inject: serve(validating, day)},
		{
			name: "expired signatures", want: []string{"dnssec-bogus"}, inject: serve(validating, -day),
			texts: map[string]string{"dnssec-bogus": bogus},
		},
		{
			name: "a record that was changed and not signed again", want: []string{"dnssec-bogus"},
			inject: serve(validating, day, c.API.V4), texts: map[string]string{"dnssec-bogus": bogus},
		},
		{
			name: "a local server does not validate", want: []string{"dnssec-bogus"},
			inject: func(c *cluster) { c.addLocalResolver(c.standby()); serve(validating, -day)(c) },
		},
		{name: "nobody validates", want: []string{}, inject: serve(notValidating, -day)},
	})
}

// signedZone is a zone file, with the key that a server must trust.
type signedZone struct{ text, anchor string }

// signZone returns the zone lab.test with the API's records. The signatures expire at a time, and do
// not fit the records of the changed addresses.
func (c *cluster) signZone(expires time.Time, changed []netip.Addr) signedZone {
	c.t.Helper()
	const origin = "lab.test."
	head := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 1}
	}
	key := &dns.DNSKEY{
		Hdr: head(origin, dns.TypeDNSKEY), Flags: dns.ZONE | dns.SEP, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := key.Generate(256)
	must(c.t, err)
	var text strings.Builder
	for _, record := range []dns.RR{
		&dns.SOA{
			Hdr: head(origin, dns.TypeSOA), Ns: "ns." + origin, Mbox: "admin." + origin, Serial: 1, Refresh: 3600,
			Retry: 600, Expire: 86400, Minttl: 1,
		},
		&dns.NS{Hdr: head(origin, dns.TypeNS), Ns: "ns." + origin},
		key,
		&dns.A{Hdr: head(dns.Fqdn(apiName), dns.TypeA), A: c.API.V4.AsSlice()},
		&dns.AAAA{Hdr: head(dns.Fqdn(apiName), dns.TypeAAAA), AAAA: c.API.V6.AsSlice()},
	} {
		signature := &dns.RRSIG{
			Algorithm: key.Algorithm, KeyTag: key.KeyTag(), SignerName: origin,
			Inception:  uint32(expires.Add(-48 * time.Hour).Unix()),
			Expiration: uint32(expires.Unix()),
		}
		must(c.t, signature.Sign(private.(crypto.Signer), []dns.RR{record}))
		line := record.String()
		for _, addr := range changed {
			line = strings.Replace(line, addr.String(), addr.Next().String(), 1)
		}
		fmt.Fprintf(&text, "%s\n%s\n", line, signature)
	}
	return signedZone{text.String(), key.String()}
}

// serveSignedZone runs unbound on the gateway with a zone, and makes the standby node use it, until
// the test ends. The node's own resolver, if it has one, is the first one in resolv.conf.
func (c *cluster) serveSignedZone(modules string, zone signedZone) {
	c.t.Helper()
	at := c.Gateway.Addresses.V4
	dir := c.t.TempDir()
	writeTestFile(c.t, filepath.Join(dir, "zone"), zone.text)
	// Without nodefault, unbound answers itself for the domain test (RFC 6761).
	writeTestFile(c.t, filepath.Join(dir, "unbound.conf"), fmt.Sprintf(`server:
	interface: %v
	access-control: 192.0.2.0/24 allow
	module-config: %q
	trust-anchor: "%s"
	local-zone: "test." nodefault
	directory: %[4]q
	chroot: ""
	username: ""
	pidfile: ""
	use-syslog: no
	do-daemonize: no
	val-log-level: 2
remote-control:
	control-enable: no
auth-zone:
	name: "lab.test."
	zonefile: "%[4]s/zone"
	for-downstream: no
	for-upstream: yes
	fallback-enabled: no
`, at, modules, zone.anchor, dir))
	// Debian's AppArmor profile lets /usr/sbin/unbound read its own folders only, but not a copy.
	_, err := c.Gateway.Run(c.t.Context(), "cp", "/usr/sbin/unbound", dir)
	must(c.t, err)
	p, err := c.Gateway.Start(lab.Command{
		Name: "unbound", Path: filepath.Join(dir, "unbound"), Args: []string{"-d", "-c", filepath.Join(dir, "unbound.conf")},
	})
	must(c.t, err)
	c.onCleanup(p.End)
	must(c.t, lab.Eventually(c.t.Context(), "unbound accepts connections", func(ctx context.Context) error {
		if err := p.Alive(); err != nil {
			return err
		}
		conn, err := c.Gateway.Dial(ctx, "tcp", net.JoinHostPort(at.String(), "53"))
		if err != nil {
			return err
		}
		return conn.Close()
	}))
	c.writeResolvConf(c.standby(), c.standby().Addresses.V4, at)
}
