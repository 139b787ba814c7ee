// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// NameAnswer is what a NameServer says of a name in one family.
type NameAnswer struct {
	Addresses []netip.Addr
	Fails     bool // SERVFAIL
	Silent    bool
}

// NameServer is a DNS server on a node whose answers a test decides on, type by
// type: no real one fails for one type because it is asked to.
type NameServer struct {
	conn   net.PacketConn
	answer func(name string, ipv6 bool) NameAnswer
}

// ServeNames starts a DNS server on one of the node's addresses. The caller has to
// Close it.
func (n *Node) ServeNames(ctx context.Context, at netip.Addr, answer func(name string, ipv6 bool) NameAnswer) (*NameServer, error) {
	s := &NameServer{answer: answer}
	err := n.Inside(func() error {
		var err error
		s.conn, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(at.String(), dnsPort))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for DNS on %s: %w", n.Name, err)
	}
	go s.serve()
	return s, nil
}

// Close ends the server.
func (s *NameServer) Close() error { return s.conn.Close() }

func (s *NameServer) serve() {
	packet := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if reply := s.reply(packet[:n]); reply != nil {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}

// reply is nil for what is not to be answered.
func (s *NameServer) reply(packet []byte) []byte {
	var query dnsmessage.Message
	if err := query.Unpack(packet); err != nil || len(query.Questions) != 1 {
		return nil
	}
	q := query.Questions[0]
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: query.Questions,
	}
	said := s.answer(strings.TrimSuffix(strings.ToLower(q.Name.String()), "."), q.Type == dnsmessage.TypeAAAA)
	switch {
	case said.Silent:
		return nil
	case said.Fails:
		reply.RCode = dnsmessage.RCodeServerFailure
	}
	for _, addr := range said.Addresses {
		record := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}}
		if addr.Is4() {
			record.Body = &dnsmessage.AResource{A: addr.As4()}
		} else {
			record.Body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
		}
		reply.Answers = append(reply.Answers, record)
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}
