// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// maxTraceMessage is more than the kernel sends in one datagram: one event each (nft_trace_notify
// of net/netfilter/nf_tables_trace.c).
const maxTraceMessage = 8 << 10

// gatherTime is the time for more events after the first one: fewer and longer responses take
// less time, and the parent accepts a limited number of them.
const gatherTime = 20 * time.Millisecond

// readTrace reads events from a netlink socket.
func readTrace(ctx context.Context, q *protocol.TraceRequest, socket *os.File) (*protocol.TraceResult, error) {
	if err := socket.SetReadDeadline(time.Now().Add(q.Wait)); err != nil {
		return nil, fmt.Errorf("read the packet trace: %w", err)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read the packet trace: %w", err)
	}
	found := &protocol.TraceResult{Records: []protocol.TraceRecord{}}
	var failure error
	err = raw.Read(func(fd uintptr) (done bool) {
		failure = receiveTrace(int(fd), found)
		return failure != nil || len(found.Records) > 0
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return found, nil
	}
	if err == nil && failure == nil && len(found.Records) < protocol.MaxTraceRecords {
		select {
		case <-time.After(gatherTime):
		case <-ctx.Done():
		}
		err = raw.Control(func(fd uintptr) { failure = receiveTrace(int(fd), found) })
	}
	if err = errors.Join(failure, err); err != nil {
		return nil, fmt.Errorf("read the packet trace: %w", err)
	}
	return found, nil
}

// receiveTrace adds the events that wait in a socket.
func receiveTrace(fd int, found *protocol.TraceResult) error {
	buffer := make([]byte, maxTraceMessage)
	for len(found.Records) < protocol.MaxTraceRecords {
		n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.ENOBUFS):
			found.Lost++
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			found.Records = append(found.Records, parseTrace(buffer[:n], protocol.MaxTraceRecords-len(found.Records))...)
		}
	}
	return nil
}

// Constants of linux/netfilter/nfnetlink.h and linux/netfilter/nf_tables.h.
const (
	traceMessage = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_TRACE
	nfgenmsgSize = 4 // family, version and resource of a message
	verdictCode  = 1 // NFTA_VERDICT_CODE
)

// parseTrace returns the events of a datagram, at most limit. It leaves out what is no event of
// a TCP packet.
func parseTrace(datagram []byte, limit int) (all []protocol.TraceRecord) {
	for len(datagram) >= unix.SizeofNlMsghdr && len(all) < limit {
		length := int(binary.NativeEndian.Uint32(datagram))
		if length < unix.SizeofNlMsghdr || length > len(datagram) {
			return all
		}
		kind, body := binary.NativeEndian.Uint16(datagram[4:]), datagram[unix.SizeofNlMsghdr:length]
		if kind == traceMessage && len(body) >= nfgenmsgSize {
			if r, ok := parseTraceEvent(body[0], body[nfgenmsgSize:]); ok && r.Validate() == nil {
				all = append(all, r)
			}
		}
		datagram = datagram[min(len(datagram), (length+3)&^3):]
	}
	return all
}

// verdict returns a verdict without the number of the queue and the flags, which are in the
// upper bits of a verdict that is not negative (NF_VERDICT_MASK, linux/netfilter.h).
func verdict(code uint32) int32 {
	const mask = 0xff
	if v := int32(code); v < 0 { //nolint:gosec // the kernel encodes an int
		return v
	}
	return int32(code & mask)
}

// parseTraceEvent parses the attributes of one event (enum nft_trace_attributes).
func parseTraceEvent(family uint8, attributes []byte) (r protocol.TraceRecord, ok bool) {
	d, err := netlink.NewAttributeDecoder(attributes)
	if err != nil {
		return r, false
	}
	d.ByteOrder = binary.BigEndian
	r.Family = family
	var network, transport []byte
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_TRACE_TABLE:
			r.Table = d.String()
		case unix.NFTA_TRACE_CHAIN:
			r.Chain = d.String()
		case unix.NFTA_TRACE_RULE_HANDLE:
			r.Handle = d.Uint64()
		case unix.NFTA_TRACE_TYPE:
			r.Kind = protocol.TraceKind(min(d.Uint32(), 255))
		case unix.NFTA_TRACE_VERDICT:
			d.Nested(func(nested *netlink.AttributeDecoder) error {
				for nested.Next() {
					if nested.Type() == verdictCode {
						r.Verdict = verdict(nested.Uint32())
					}
				}
				return nil
			})
		case unix.NFTA_TRACE_POLICY:
			r.Verdict = verdict(d.Uint32())
		case unix.NFTA_TRACE_ID:
			r.Packet = d.Uint32()
		case unix.NFTA_TRACE_IIF:
			r.In = d.Uint32()
		case unix.NFTA_TRACE_OIF:
			r.Out = d.Uint32()
		case unix.NFTA_TRACE_NETWORK_HEADER:
			network = d.Bytes()
		case unix.NFTA_TRACE_TRANSPORT_HEADER:
			transport = d.Bytes()
		}
	}
	if d.Err() != nil || r.Kind < protocol.TracePolicy || r.Kind > protocol.TraceRule ||
		strings.ContainsRune(r.Table+r.Chain, 0) {
		return r, false
	}
	if network != nil {
		r.Header, ok = parseTraceHeader(network, transport)
		return r, ok
	}
	return r, true
}

// parseTraceHeader parses the headers of a TCP packet over IPv4 or IPv6 (RFC 791, RFC 8200, RFC 9293).
func parseTraceHeader(network, transport []byte) (*protocol.TraceHeader, bool) {
	const (
		minTransport     = 14 // up to the flags
		offsetSequence   = 4
		offsetFlags      = 13
		offsetSource4    = 12
		offsetSource6    = 8
		sizeIPv4, sizeV6 = 20, 40
	)
	if len(transport) < minTransport || len(network) == 0 {
		return nil, false
	}
	var source, destination netip.Addr
	switch version := network[0] >> 4; {
	case version == 4 && len(network) >= sizeIPv4:
		source, _ = netip.AddrFromSlice(network[offsetSource4 : offsetSource4+4])
		destination, _ = netip.AddrFromSlice(network[offsetSource4+4 : sizeIPv4])
	case version == 6 && len(network) >= sizeV6:
		source, _ = netip.AddrFromSlice(network[offsetSource6 : offsetSource6+16])
		destination, _ = netip.AddrFromSlice(network[offsetSource6+16 : sizeV6])
	default:
		return nil, false
	}
	if source.Is4In6() || destination.Is4In6() {
		return nil, false
	}
	return &protocol.TraceHeader{
		Source:      netip.AddrPortFrom(source, binary.BigEndian.Uint16(transport)),
		Destination: netip.AddrPortFrom(destination, binary.BigEndian.Uint16(transport[2:])),
		Sequence:    binary.BigEndian.Uint32(transport[offsetSequence:]),
		Flags:       transport[offsetFlags],
	}, true
}
