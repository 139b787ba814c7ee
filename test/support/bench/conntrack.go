// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// flushConnections removes the tracked connections of a node. Clients of the next proxy use
// the same ports, and would otherwise match the address translation of the previous one.
func flushConnections(n *lab.Node) error {
	const (
		deleteConnection = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2 // IPCTNL_MSG_CT_DELETE
		genericHeader    = 4                                 // struct nfgenmsg: family 0 and no attributes mean all
	)
	return n.InNamespace(func() error {
		c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
		if err != nil {
			return fmt.Errorf("open netlink to connection tracking: %w", err)
		}
		defer func() { _ = c.Close() }()
		_, err = c.Execute(netlink.Message{
			Header: netlink.Header{Type: deleteConnection, Flags: netlink.Request | netlink.Acknowledge},
			Data:   make([]byte, genericHeader),
		})
		if err != nil {
			return fmt.Errorf("remove the tracked connections of %s: %w", n.Name, err)
		}
		return nil
	})
}
