// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ProxyARP answers ARP probes for every address on a node's link, as routers with proxy ARP
// do. Linux's own proxy ARP does not answer probes (net/ipv4/arp.c).
type ProxyARP struct{ socket *os.File }

// The parts of an ARP request on Ethernet (RFC 826).
const (
	arpFrame     = 42
	arpOperation = 20
	arpSender    = 22
	arpSenderIP  = 28
	arpTarget    = 32
	arpTargetIP  = 38
)

// ProxyARP starts to answer. The caller must Close it.
func (n *Node) ProxyARP(link string) (*ProxyARP, error) {
	p := &ProxyARP{}
	var own net.HardwareAddr
	err := n.InNamespace(func() error {
		l, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		own = l.HardwareAddr
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ARP))
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: l.Index}); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		p.socket = os.NewFile(uintptr(fd), "arp")
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("answer ARP on %s: %w", n.Name, err)
	}
	go p.serve(own)
	return p, nil
}

// Close stops it.
func (p *ProxyARP) Close() error { return p.socket.Close() }

func (p *ProxyARP) serve(own net.HardwareAddr) {
	frame := make([]byte, 2048)
	for {
		n, err := p.socket.Read(frame)
		if err != nil {
			return
		}
		isProbe := n >= arpFrame && frame[arpOperation+1] == 1 && bytes.Equal(frame[arpSenderIP:arpTarget], make([]byte, 4))
		if !isProbe {
			continue
		}
		reply := bytes.Clone(frame[:arpFrame])
		sender := frame[arpSender:arpSenderIP]
		copy(reply, sender)
		copy(reply[6:], own)
		reply[arpOperation+1] = 2
		copy(reply[arpSender:], own)
		copy(reply[arpSenderIP:], frame[arpTargetIP:arpFrame])
		copy(reply[arpTarget:], sender)
		copy(reply[arpTargetIP:], make([]byte, 4))
		_, _ = p.socket.Write(reply)
	}
}
