// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"net"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

const hardwareBytes = 6 // bytes of an Ethernet address

// parseNeighbours finds who sent the packets. The filter of [probe.Client.Neighbours]
// accepts only answers for the address.
func parseNeighbours(q *prober.NeighboursRequest) *prober.NeighboursResult {
	sender := arpSender
	if q.Addr.Is6() {
		sender = ndpSender
	}
	found := &prober.NeighboursResult{Hardware: []string{}}
	for _, packet := range q.Packets {
		who := sender(packet)
		if name := net.HardwareAddr(who).String(); who != nil && !isOwnHardware(q, who) &&
			!slices.Contains(found.Hardware, name) && len(found.Hardware) < prober.MaxNeighbours {
			found.Hardware = append(found.Hardware, name)
		}
	}
	return found
}

// mine: a host with several links in one network hears itself on them.
func isOwnHardware(q *prober.NeighboursRequest, who []byte) bool {
	return slices.ContainsFunc(q.HostHardware, func(own []byte) bool { return bytes.Equal(own, who) })
}

// arpSender returns the sender's hardware address in an Ethernet frame (RFC 826).
func arpSender(frame []byte) []byte {
	const offset = 22
	if len(frame) < offset+hardwareBytes {
		return nil
	}
	return frame[offset : offset+hardwareBytes]
}

// ndpSender finds the sender's hardware address among the options of an advertisement
// (RFC 4861).
func ndpSender(message []byte) []byte {
	const (
		advertisementBytes = 24
		optionTargetLink   = 2
	)
	if len(message) < advertisementBytes {
		return nil
	}
	options := message[advertisementBytes:]
	for len(options) >= 8 {
		size := int(options[1]) * 8
		if size == 0 || size > len(options) {
			return nil
		}
		if options[0] == optionTargetLink {
			return options[2 : 2+hardwareBytes]
		}
		options = options[size:]
	}
	return nil
}
