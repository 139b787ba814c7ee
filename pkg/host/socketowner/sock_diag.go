// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// From include/uapi/linux/inet_diag.h.
const (
	requestBytes     = 56 // size of struct inet_diag_req_v2
	messageBytes     = 72 // size of struct inet_diag_msg
	inetDiagCgroupID = 21 // attribute INET_DIAG_CGROUP_ID
)

// diagTimeout limits one request to the kernel. The kernel answers while the request is being
// sent. The first request can load a module (tcp_diag).
const diagTimeout = 2 * time.Second

type listeningSocket struct {
	inode  uint32
	uid    uint32
	cgroup uint64 // ID of the cgroup (version 2) in which it was created; 0 before Linux 5.7
}

func dial() (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, fmt.Errorf("open a sock_diag socket: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(diagTimeout)); err != nil {
		return nil, errors.Join(fmt.Errorf("set the deadline of the sock_diag socket: %w", err), conn.Close())
	}
	return conn, nil
}

// listListening returns the sockets that listen on a TCP port of any address. It returns an
// error if it found none and a family could not be queried.
func listListening(port uint16) ([]listeningSocket, error) {
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// The kernel does not handle AF_UNSPEC, so each family needs a request. A socket for both
	// families is AF_INET6.
	v4, err4 := querySockets(conn, unix.AF_INET, port)
	v6, err6 := querySockets(conn, unix.AF_INET6, port)
	if len(v4)+len(v6) == 0 {
		return nil, errors.Join(err4, err6)
	}
	return slices.Concat(v4, v6), nil
}

func querySockets(conn *netlink.Conn, family uint8, port uint16) ([]listeningSocket, error) {
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: netlink.Request | netlink.Dump},
		Data:   dumpRequest(family, port),
	})
	if err != nil {
		return nil, fmt.Errorf("list the listening sockets: %w", err)
	}
	sockets := make([]listeningSocket, 0, len(answers))
	for _, a := range answers {
		s, err := parseSocket(a.Data)
		if err != nil {
			return nil, err
		}
		sockets = append(sockets, s)
	}
	return sockets, nil
}

// HasConnection reports whether a TCP connection from remote to local reached a socket of this
// host, accepted or not. local is the address of the host's socket, after any address
// translation.
func HasConnection(local, remote netip.AddrPort) (bool, error) {
	conn, err := dial()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: netlink.Request},
		Data:   exactRequest(local, remote),
	})
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a connection from %v to %v: %w", remote, local, err)
	}
	// Without a connection the kernel returns the listening socket.
	return slices.ContainsFunc(answers, func(m netlink.Message) bool {
		return len(m.Data) >= messageBytes && binary.BigEndian.Uint16(m.Data[6:]) == remote.Port()
	}), nil
}

// exactRequest encodes a struct inet_diag_req_v2 with a complete socket ID: the ports and
// addresses of both ends, the link and the cookie (net/ipv4/inet_diag.c,
// inet_diag_find_one_icsk).
func exactRequest(local, remote netip.AddrPort) []byte {
	family := uint8(unix.AF_INET6)
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	b := dumpRequest(family, local.Port())
	binary.BigEndian.PutUint16(b[10:], remote.Port())
	copy(b[12:], local.Addr().AsSlice())
	copy(b[28:], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(b[48:], math.MaxUint64) // INET_DIAG_NOCOOKIE, twice
	return b
}

// dumpRequest encodes a struct inet_diag_req_v2: family, protocol, extensions, padding,
// states, and a socket ID that starts with the source port. A dump compares only the ports of
// the ID (net/ipv4/inet_diag.c, inet_diag_dump_icsk).
func dumpRequest(family uint8, port uint16) []byte {
	b := make([]byte, requestBytes)
	b[0] = family
	b[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[4:], 1<<unix.BPF_TCP_LISTEN)
	binary.BigEndian.PutUint16(b[8:], port)
	return b
}

// parseSocket parses a struct inet_diag_msg, which ends with the user ID and the inode, and
// the attributes that follow it. Every reply contains the cgroup ID. Unlike the mark, it
// requires no privilege (inet_diag_msg_attrs_fill).
func parseSocket(b []byte) (listeningSocket, error) {
	if len(b) < messageBytes {
		return listeningSocket{},
			fmt.Errorf("the reply about a listening socket has %d bytes, want at least %d", len(b), messageBytes)
	}
	s := listeningSocket{uid: binary.NativeEndian.Uint32(b[64:]), inode: binary.NativeEndian.Uint32(b[68:])}
	attributes, err := netlink.NewAttributeDecoder(b[messageBytes:])
	if err != nil {
		return listeningSocket{}, fmt.Errorf("read the attributes of a listening socket: %w", err)
	}
	for attributes.Next() {
		if attributes.Type() == inetDiagCgroupID {
			s.cgroup = attributes.Uint64()
		}
	}
	if err := attributes.Err(); err != nil {
		return listeningSocket{}, fmt.Errorf("read the attributes of a listening socket: %w", err)
	}
	return s, nil
}
