// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// NameAnswer is the answer of a NameServer for a name in one family.
type NameAnswer struct {
	Addresses []netip.Addr
	Fails     bool // SERVFAIL
	Silent    bool
}

// NameServer is a DNS server with answers per record type. Real servers cannot be
// configured to fail for one type.
type NameServer struct{ conn net.PacketConn }

// ServeNames starts a DNS server on one of the node's addresses. The caller must Close it.
func (n *Node) ServeNames(ctx context.Context, at netip.Addr, answer func(name string, ipv6 bool) NameAnswer) (
	*NameServer, error,
) {
	s := &NameServer{}
	err := n.InNamespace(func() error {
		var err error
		s.conn, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(at.String(), dnsPort))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for DNS on %s: %w", n.Name, err)
	}
	server := &dns.Server{PacketConn: s.conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		q := query.Question[0]
		result := answer(strings.TrimSuffix(strings.ToLower(q.Name), "."), q.Qtype == dns.TypeAAAA)
		if result.Silent {
			return
		}
		reply := new(dns.Msg).SetReply(query)
		reply.RecursionAvailable = true
		if result.Fails {
			reply.Rcode = dns.RcodeServerFailure
		}
		for _, addr := range result.Addresses {
			header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeAAAA, Class: q.Qclass, Ttl: 1}
			if addr.Is4() {
				header.Rrtype = dns.TypeA
				reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: addr.AsSlice()})
			} else {
				reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
			}
		}
		_ = w.WriteMsg(reply)
	})}
	go func() { _ = server.ActivateAndServe() }() // until Close
	return s, nil
}

// Close stops the server.
func (s *NameServer) Close() error { return s.conn.Close() }
