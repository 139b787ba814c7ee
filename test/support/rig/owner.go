// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// tableFlagOwner is NFT_TABLE_F_OWNER (linux/netfilter/nf_tables.h): the table belongs to a
// socket, and nobody else can change it.
const tableFlagOwner = 0x2

// OwnTable creates a table of family inet that another program owns, until release is
// called.
func (r *Rig) OwnTable(name string) (release func() error, err error) {
	var conn *netlink.Conn
	err = r.Host.InNamespace(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.String(unix.NFTA_TABLE_NAME, name)
	e.Uint32(unix.NFTA_TABLE_FLAGS, tableFlagOwner)
	table, err := e.Encode()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("encode a table: %w", err), conn.Close())
	}
	// A batch, and in it one message: struct nfgenmsg and the attributes.
	head := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}
	_, err = conn.SendMessages([]netlink.Message{
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: netlink.Request}, Data: head},
		{
			Header: netlink.Header{
				Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE,
				Flags: netlink.Request | netlink.Acknowledge | netlink.Create,
			},
			Data: append([]byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, table...),
		},
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: netlink.Request}, Data: head},
	})
	if err == nil {
		_, err = conn.Receive() // the acknowledgment, or the error
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a table with an owner: %w", err), conn.Close())
	}
	return conn.Close, nil
}
