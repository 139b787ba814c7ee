// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"

	"github.com/mdlayher/socket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Raw sockets stay in this process, which holds the capability that opening them requires.
// Using them requires none, and the kernel sends on raw sockets even after shutdown(2). No such
// socket is therefore passed to the prober process.
//
// This process composes and sends the requests. The kernel drops every packet except the
// expected replies. This process interprets no byte of the replies: only their arrival counts.

// maxStalePackets bounds the packets that a socket receives before its filter is attached.
const maxStalePackets = 1024

// openFiltered opens a raw socket that receives only packets that filter accepts.
func openFiltered(family, protocol int, filter []bpf.Instruction, prepare func(*socket.Conn) error) (*socket.Conn,
	error,
) {
	program, err := bpf.Assemble(filter)
	if err != nil {
		return nil, err
	}
	s, err := socket.Socket(family, unix.SOCK_RAW, protocol, "probe", nil)
	if err != nil {
		return nil, err
	}
	if err = s.SetBPF(program); err == nil {
		err = prepare(s)
	}
	if err == nil {
		err = dropStale(s)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// dropStale drops the packets that the socket received before its filter was attached.
func dropStale(s *socket.Conn) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		for range maxStalePackets {
			if _, _, err := unix.Recvfrom(int(fd), nil, unix.MSG_DONTWAIT); errors.Is(err, unix.EAGAIN) {
				break
			}
		}
		return true
	})
}

// packetField is a field of a packet with its required value.
type packetField struct {
	offset uint32
	size   int
	value  uint32
}

// matchFields returns a filter that accepts packets with all fields. Offsets are relative
// to the BPF register X, which is 0 at the start.
func matchFields(fields ...packetField) []bpf.Instruction {
	var filter []bpf.Instruction
	for _, f := range fields {
		filter = append(filter,
			bpf.LoadIndirect{Off: f.offset, Size: f.size},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: f.value, SkipTrue: 1},
			bpf.RetConstant{Val: 0})
	}
	return append(filter, bpf.RetConstant{Val: maxMTU})
}
