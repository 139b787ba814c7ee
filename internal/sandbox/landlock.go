// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// restrictAccess denies this process, with Landlock, every file, local socket and signal
// to another process, and the network that a process of this kind does not use. It adds
// no rule: nothing is allowed again. Rights that the kernel does not know stay, down to
// all of them on a kernel without Landlock.
//
// The system-call filter denies most of it already. Landlock decides on objects, where
// the filter decides on calls: it also denies a call that the filter allows by mistake, and
// the exporter's connections on s390x, where the filter sees no arguments of socketcall.
func restrictAccess(kind Kind) error {
	config := landlock.V11
	config.HandledAccessNet = deniedNetwork(kind)
	if err := config.BestEffort().Restrict(); err != nil {
		return fmt.Errorf("restrict the access to files and networks: %w", err)
	}
	return nil
}

// deniedNetwork returns what a process of this kind never does in the network. The ports
// of the ingress, of egress proxies and of probed servers change while a process runs, and
// Landlock allows no later addition: it cannot restrict the ports of the proxy and the
// prober.
func deniedNetwork(kind Kind) landlock.AccessNetSet {
	const (
		tcp = syscall.AccessNetConnectTCP
		// The kernel binds a socket that sends its first datagram: BindUDP includes that.
		udp = syscall.AccessNetBindUDP | syscall.AccessNetConnectSendUDP
	)
	switch denied := landlock.V11.HandledAccessNet; kind {
	case Proxy:
		return denied &^ tcp
	case Prober:
		return denied &^ (tcp | udp)
	default:
		return denied
	}
}
