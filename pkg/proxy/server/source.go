// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"net/netip"
)

// sourceKey identifies the source of a connection: an IPv4 address, or the /64 of
// an IPv6 address. One host can use any address of a /64 (RFC 4291 section 2.5.4,
// RFC 8981).
type sourceKey struct {
	network uint64
	ipv6    bool
}

// sourceKeyOf takes an unmapped address. Addresses with the well-known translation
// prefix 64:ff9b::/96 (RFC 6052 section 2.1) are identified by the IPv4 address
// inside. This single /64 contains the whole IPv4 internet.
func sourceKeyOf(a netip.Addr) sourceKey {
	if a.Is4() {
		b := a.As4()
		return sourceKey{network: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	const translated = 0x0064_ff9b_0000_0000
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if high == translated && low>>32 == 0 {
		return sourceKey{network: low}
	}
	return sourceKey{network: high, ipv6: true}
}

// source holds the connections in flight of one source.
type source struct {
	sourceKey
	count, evicted     int             // all of them, and those in stage evicted
	reading, lingering *connectionList // connections whose client is awaited, the oldest first
}

// joinSource adds c to its source. The caller holds mu.
func (t *connectionTable) joinSource(c *connection) {
	from := sourceKeyOf(c.client.Addr())
	s := t.sources[from]
	if s == nil {
		s, _ = t.sourcePool.Get().(*source)
		s.sourceKey = from
		t.sources[from] = s
	}
	s.count++
	c.source = s
}

// leaveSource removes c from its source, and deletes a source without connections.
// The caller holds mu.
func (t *connectionTable) leaveSource(c *connection) {
	s := c.source
	if c.source = nil; s == nil {
		return
	}
	if s.count--; s.count == 0 {
		delete(t.sources, s.sourceKey)
		t.sourcePool.Put(s)
	}
}
