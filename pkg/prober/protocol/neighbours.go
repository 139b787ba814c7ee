// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// NeighboursRequest requests the hosts of a link that answered for an address, by ARP or
// neighbour discovery. The client received the packets; the prober process parses them.
type NeighboursRequest struct {
	Addr         netip.Addr `json:"addr"`
	HostHardware [][]byte   `json:"hostHardware"` // hardware addresses of this host: ignored
	Packets      [][]byte   `json:"packets"`      // Ethernet frames, or ICMPv6 messages
}

// NeighboursResult is the result of a [NeighboursRequest].
type NeighboursResult struct {
	Hardware []string `json:"hardware"` // each address once, the first 8
}

// MaxNeighbours bounds the addresses of a [NeighboursResult].
const MaxNeighbours = 8

// HardwareBytes is the length of an Ethernet address.
const HardwareBytes = 6

func (n *NeighboursResult) sanitize() {
	n.Hardware = n.Hardware[:min(len(n.Hardware), MaxNeighbours)]
}

func (n *NeighboursResult) validate() error {
	for _, text := range n.Hardware {
		if address, err := net.ParseMAC(text); err != nil || len(address) != HardwareBytes || address.String() != text {
			return fmt.Errorf("%w: invalid hardware address", cause.ErrInvalid)
		}
	}
	return nil
}
