// SPDX-License-Identifier: Apache-2.0

package probe

import "net/netip"

// NeighboursQuestion asks which hosts of a link answer for an address: by ARP
// over a packet socket that is bound to the link, or by neighbour discovery over
// a raw ICMPv6 socket; the socket comes with the question.
type NeighboursQuestion struct {
	Addr   netip.Addr `json:"addr"`
	Link   int        `json:"link"`   // its index
	Own    []byte     `json:"own"`    // the link's own hardware address
	Mine   [][]byte   `json:"mine"`   // this host's hardware addresses, that one among them: not to be heeded
	Source netip.Addr `json:"source"` // IPv6: an own address of the link, be it link-local
}

// Neighbours are those that have answered within the question's time.
type Neighbours struct {
	Hardware []string `json:"hardware"` // addresses in the usual form, each once, the first 8
}

// MaxNeighbours bounds the answers of a [Neighbours].
const MaxNeighbours = 8

func (n *Neighbours) tame() {
	n.Hardware = n.Hardware[:min(len(n.Hardware), MaxNeighbours)]
	for i := range n.Hardware {
		n.Hardware[i] = line(n.Hardware[i])
	}
}
