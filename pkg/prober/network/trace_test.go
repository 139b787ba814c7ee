// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// traceEvent encodes an event as nft_trace_notify does.
func traceEvent(t testing.TB, network, transport []byte) []byte {
	t.Helper()
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.Uint32(unix.NFTA_TRACE_ID, 7)
	e.Uint32(unix.NFTA_TRACE_TYPE, uint32(protocol.TraceRule))
	e.Uint64(unix.NFTA_TRACE_RULE_HANDLE, 4)
	e.String(unix.NFTA_TRACE_TABLE, "filter")
	e.String(unix.NFTA_TRACE_CHAIN, "input")
	e.Nested(unix.NFTA_TRACE_VERDICT, func(nested *netlink.AttributeEncoder) error {
		nested.ByteOrder = binary.BigEndian
		nested.Uint32(verdictCode, uint32(protocol.VerdictDrop))
		return nil
	})
	e.Uint32(unix.NFTA_TRACE_IIF, 2)
	if network != nil {
		e.Bytes(unix.NFTA_TRACE_NETWORK_HEADER, network)
		e.Bytes(unix.NFTA_TRACE_TRANSPORT_HEADER, transport)
	}
	attributes, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	body := append([]byte{unix.NFPROTO_INET, 0, 0, 0}, attributes...)
	m := netlink.Message{
		Header: netlink.Header{Length: uint32(unix.SizeofNlMsghdr + len(body)), Type: traceMessage},
		Data:   body,
	}
	datagram, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return datagram
}

// headers are the headers of a SYN over IPv4.
func headers() (network, transport []byte) {
	network = make([]byte, 20)
	network[0] = 0x45
	copy(network[12:], []byte{192, 0, 2, 100, 192, 0, 2, 5})
	transport = make([]byte, 20)
	copy(transport, []byte{0x9c, 0x40, 0, 80, 0, 0, 0, 9})
	transport[13] = 2
	return network, transport
}

// TestParseTrace: an event with and without headers, two in one datagram, and what is no event.
func TestParseTrace(t *testing.T) {
	t.Parallel()
	network, transport := headers()
	whole := traceEvent(t, network, transport)
	want := protocol.TraceRecord{
		Packet: 7, Kind: protocol.TraceRule, Family: unix.NFPROTO_INET, Table: "filter",
		Chain: "input", Handle: 4, Verdict: protocol.VerdictDrop, In: 2,
	}
	without := want
	want.Header = &protocol.TraceHeader{
		Source:      netip.MustParseAddrPort("192.0.2.100:40000"),
		Destination: netip.MustParseAddrPort("192.0.2.5:80"), Sequence: 9, Flags: 2,
	}
	long := slices.Clone(whole)
	binary.NativeEndian.PutUint32(long, uint32(len(long)+4))
	other := slices.Clone(whole)
	binary.NativeEndian.PutUint16(other[4:], 1)
	for name, tt := range map[string]struct {
		datagram []byte
		want     []protocol.TraceRecord
	}{
		"with headers":    {whole, []protocol.TraceRecord{want}},
		"without headers": {traceEvent(t, nil, nil), []protocol.TraceRecord{without}},
		"two": {
			append(slices.Clone(whole), traceEvent(t, nil, nil)...),
			[]protocol.TraceRecord{want, without},
		},
		"longer than it is":   {long, nil},
		"another message":     {other, nil},
		"a short IP header":   {traceEvent(t, network[:19], transport), nil},
		"a short TCP header":  {traceEvent(t, network, transport[:13]), nil},
		"neither IPv4 nor v6": {traceEvent(t, append([]byte{0x55}, network[1:]...), transport), nil},
		"nothing":             {nil, nil},
	} {
		got := parseTrace(tt.datagram, protocol.MaxTraceRecords)
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := parseTrace(append(slices.Clone(whole), whole...), 1); len(got) != 1 {
		t.Errorf("%d records, the limit is 1", len(got))
	}
}

// TestReadTraceWithoutSocket: a request without a descriptor is an error, and a silent socket is
// no result.
func TestReadTraceWithoutSocket(t *testing.T) {
	t.Parallel()
	request := &protocol.TraceRequest{Wait: 50 * time.Millisecond}
	if _, err := readTrace(t.Context(), request, nil); err == nil {
		t.Error("no error")
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fd), "trace")
	defer socket.Close()
	got, err := readTrace(t.Context(), request, socket)
	if err != nil || len(got.Records) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSocketOfRequestIsClosed: the descriptor that comes with a request is closed also if the
// request expired, or does not use it.
func TestSocketOfRequestIsClosed(t *testing.T) {
	t.Parallel()
	commands, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	events, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, events) }()
	conn, err := wire.NewChild([2]*os.File{os.NewFile(uintptr(commands[0]), "commands"), writer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(conn.Close(), unix.Close(commands[1])) })
	for name, q := range map[string]protocol.Request{
		"expired":     {Trace: &protocol.TraceRequest{}},
		"of no trace": {Timeout: time.Minute, Lookup: &protocol.LookupRequest{}},
	} {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		respond(t.Context(), conn, q, ends[0])
		if n, err := unix.Read(ends[1], make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("%s: the socket is still open: %v", name, err)
		}
		_ = unix.Close(ends[1])
	}
}

// FuzzParseTrace: no datagram crashes the parser, and the records of each are valid in a response.
func FuzzParseTrace(f *testing.F) {
	network, transport := headers()
	f.Add(traceEvent(f, network, transport))
	f.Add(traceEvent(f, nil, nil))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		got := parseTrace(datagram, 3)
		if len(got) > 3 {
			t.Errorf("%d records", len(got))
		}
		for _, r := range got {
			if err := r.Validate(); err != nil {
				t.Errorf("%v", err)
			}
		}
	})
}
