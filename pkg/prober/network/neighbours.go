// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"net"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// parseNeighbours returns the senders of the packets. The filter of
// [prober.Client.Neighbours] accepts only replies for the address.
func parseNeighbours(q *protocol.NeighboursRequest) *protocol.NeighboursResult {
	sender := arpSender
	if q.Addr.Is6() {
		sender = ndpSender
	}
	found := &protocol.NeighboursResult{Hardware: []string{}}
	for _, packet := range q.Packets {
		hardware := sender(packet)
		if name := net.HardwareAddr(hardware).String(); hardware != nil && !isOwnHardware(q, hardware) &&
			!slices.Contains(found.Hardware, name) && len(found.Hardware) < protocol.MaxNeighbours {
			found.Hardware = append(found.Hardware, name)
		}
	}
	return found
}

// isOwnHardware: a host with several links in one network receives its own packets.
func isOwnHardware(q *protocol.NeighboursRequest, hardware []byte) bool {
	return slices.ContainsFunc(q.HostHardware, func(host []byte) bool { return bytes.Equal(host, hardware) })
}

// arpSender returns the sender's hardware address in an Ethernet frame (RFC 826).
func arpSender(frame []byte) []byte {
	const offset = 22
	if len(frame) < offset+protocol.HardwareBytes {
		return nil
	}
	return frame[offset : offset+protocol.HardwareBytes]
}

// ndpSender returns the sender's hardware address from the options of an advertisement
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
			return options[2 : 2+protocol.HardwareBytes]
		}
		options = options[size:]
	}
	return nil
}
