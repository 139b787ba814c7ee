// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"errors"
	"net"
	"testing"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"
)

// TestFromMessage has what the kernel of the other tests does not send.
func TestFromMessage(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*rtnetlink.AddressMessage{
		"no attributes":                {},
		"no address":                   {Attributes: &rtnetlink.AddressAttributes{}},
		"an address of a wrong length": {Attributes: &rtnetlink.AddressAttributes{Local: net.IP{1, 2, 3}}},
	} {
		if got, ok := fromMessage(m); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for flags, tentative := range map[uint32]bool{
		unix.IFA_F_TENTATIVE: true,
		// The kernel uses an optimistic address while it probes for it.
		unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC: false,
	} {
		attributes := &rtnetlink.AddressAttributes{Address: net.ParseIP("2001:db8::5"), Flags: flags}
		if got, ok := fromMessage(&rtnetlink.AddressMessage{Attributes: attributes}); !ok || got.Tentative != tentative {
			t.Errorf("flags %#x: %+v", flags, got)
		}
	}
}

// datagram encodes messages like the kernel.
func datagram(t *testing.T, messages ...netlink.Message) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		m.Header.Length = uint32(unix.NLMSG_HDRLEN + len(m.Data))
		m.Header.Sequence = 7
		raw, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, raw...)
	}
	return b
}

func TestFamilyDump(t *testing.T) {
	t.Parallel()
	address := func(family uint8, ip net.IP, flags netlink.HeaderFlags) netlink.Message {
		// Every message has an attribute of an unknown type.
		data, err := (&rtnetlink.AddressMessage{
			Family:     family,
			Attributes: &rtnetlink.AddressAttributes{Address: ip},
		}).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		unknown := nltest.MustMarshalAttributes([]netlink.Attribute{{Type: 4000, Data: []byte("later")}})
		return netlink.Message{
			Header: netlink.Header{Type: unix.RTM_NEWADDR, Flags: netlink.Multi | flags},
			Data:   append(data, unknown...),
		}
	}
	done := func(errno int32, flags netlink.HeaderFlags) netlink.Message {
		return netlink.Message{
			Header: netlink.Header{Type: netlink.Done, Flags: netlink.Multi | flags},
			Data:   nlenc.Int32Bytes(-errno),
		}
	}
	ip6 := net.ParseIP("2001:db8::5")
	const torn = netlink.DumpInterrupted
	tests := []struct {
		name      string
		messages  []netlink.Message
		addresses int
		torn      bool
		done      bool
		err       error
	}{
		{name: "not done yet", messages: []netlink.Message{address(unix.AF_INET6, ip6, 0)}, addresses: 1},
		{name: "no address", messages: []netlink.Message{done(0, 0)}, done: true},
		{name: "clean", messages: []netlink.Message{address(unix.AF_INET6, ip6, 0), done(0, 0)}, addresses: 1, done: true},
		{
			name: "torn at an address", messages: []netlink.Message{address(unix.AF_INET6, ip6, torn), done(0, 0)}, addresses: 1,
			torn: true, done: true,
		},
		{
			name: "torn at the end alone", messages: []netlink.Message{address(unix.AF_INET6, ip6, 0), done(0, torn)},
			addresses: 1, torn: true, done: true,
		},
		{name: "another family", messages: []netlink.Message{
			address(unix.AF_INET, net.IPv4(192, 0, 2, 5).To4(), 0),
			done(0, 0),
		}, done: true},
		{name: "an error at the end", messages: []netlink.Message{done(int32(unix.ENOMEM), 0)}, done: true, err: unix.ENOMEM},
		{
			name: "an error at once", done: true, err: unix.EPERM,
			messages: []netlink.Message{{
				Header: netlink.Header{Type: netlink.Error},
				Data:   nlenc.Int32Bytes(-int32(unix.EPERM)),
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := familyDump{family: unix.AF_INET6, sequence: 7}
			err := d.add(datagram(t, tt.messages...))
			if !errors.Is(err, tt.err) || len(d.addresses) != tt.addresses || d.interrupted != tt.torn || d.done != tt.done {
				t.Errorf("%+v, error %v; want %d addresses, interrupted %v, done %v, error %v", d, err, tt.addresses, tt.torn,
					tt.done, tt.err)
			}
		})
	}
	t.Run("an answer to another request", func(t *testing.T) {
		t.Parallel()
		d := familyDump{family: unix.AF_INET6, sequence: 8}
		if err := d.add(datagram(t, done(0, 0))); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		b := datagram(t, address(unix.AF_INET6, ip6, 0))
		for n := range b {
			d := familyDump{family: unix.AF_INET6, sequence: 7}
			_ = d.add(b[:n]) // must not panic
			if len(d.addresses) != 0 {
				t.Errorf("%d of %d bytes contain an address", n, len(b))
			}
		}
	})
}
