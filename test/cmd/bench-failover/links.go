// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// links adds and removes addresses on one link of a node by netlink, and receives the
// kernel's address events.
type links struct {
	index    uint32
	requests *rtnetlink.Conn
	events   *rtnetlink.Conn
	arrived  chan arrival
	done     chan struct{}
}

// arrival is one RTM_NEWADDR.
type arrival struct {
	address netip.Addr
	at      time.Time
}

func openLinks(n *lab.Node, name string) (*links, error) {
	l := &links{arrived: make(chan arrival, 64), done: make(chan struct{})}
	err := n.InNamespace(func() error {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("find the link: %w", err)
		}
		l.index = uint32(link.Index) //nolint:gosec // an ifindex is an int32 in the kernel
		if l.requests, err = rtnetlink.Dial(nil); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		groups := uint32(unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR)
		if l.events, err = rtnetlink.Dial(&netlink.Config{Groups: groups}); err != nil {
			return errors.Join(fmt.Errorf("listen on netlink: %w", err), l.requests.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	go l.listen()
	return l, nil
}

// listen records the arrival time of each event. It returns when the socket is closed.
func (l *links) listen() {
	defer close(l.done)
	for {
		messages, headers, err := l.events.Receive()
		at := time.Now()
		if err != nil {
			return
		}
		for i, m := range messages {
			added, ok := m.(*rtnetlink.AddressMessage)
			if !ok || added.Attributes == nil || headers[i].Header.Type != unix.RTM_NEWADDR {
				continue
			}
			if a, ok := netip.AddrFromSlice(added.Attributes.Address); ok {
				select {
				case l.arrived <- arrival{a.Unmap(), at}:
				default: // no add waits for this event
				}
			}
		}
	}
}

// add adds a VIP to the link as keepalived does, and returns when the kernel's event
// arrived.
func (l *links) add(ctx context.Context, vip netip.Addr) (time.Time, error) {
	for len(l.arrived) > 0 {
		<-l.arrived // left from an earlier move
	}
	if err := l.requests.Address.New(l.message(vip)); err != nil {
		return time.Time{}, fmt.Errorf("add %s: %w", vip, err)
	}
	for {
		select {
		case a := <-l.arrived:
			if a.address == vip {
				return a.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for the announcement of %s: %w", vip, context.Cause(ctx))
		}
	}
}

func (l *links) remove(vip netip.Addr) error {
	if err := l.requests.Address.Delete(l.message(vip)); err != nil {
		return fmt.Errorf("remove %s: %w", vip, err)
	}
	return nil
}

func (l *links) message(vip netip.Addr) *rtnetlink.AddressMessage {
	m := &rtnetlink.AddressMessage{
		Family:       unix.AF_INET,
		PrefixLength: uint8(vip.BitLen()), //nolint:gosec // 32 or 128
		Index:        l.index,
		Attributes:   &rtnetlink.AddressAttributes{Address: vip.AsSlice(), Local: vip.AsSlice()},
	}
	if vip.Is6() {
		m.Family = unix.AF_INET6
		m.Attributes.Local = nil
		// Without the flag the address is tentative for a second.
		m.Flags, m.Attributes.Flags = unix.IFA_F_NODAD, unix.IFA_F_NODAD
	}
	return m
}

func (l *links) close() error {
	err := errors.Join(l.events.Close(), l.requests.Close())
	<-l.done
	return err
}
