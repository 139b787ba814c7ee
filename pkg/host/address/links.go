// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"fmt"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/rtnl"
)

// Link is a network interface of the host.
type Link struct {
	Index  uint32
	Name   string
	Master uint32 // index of its master, such as a bridge, a bond or a datapath (IFLA_MASTER); 0: no master
	Lower  uint32 // index of the device below a VLAN or macvlan (IFLA_LINK); 0: none
	Kind   string // of its driver, such as bond (IFLA_INFO_KIND); empty for hardware
	Up     bool
}

// Links returns the current network interfaces of this host.
func Links() ([]Link, error) {
	var found []rtnetlink.LinkMessage
	err := rtnl.Do(func(c *rtnetlink.Conn) (err error) {
		found, err = c.Link.List()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the links of this host: %w", err)
	}
	list := make([]Link, 0, len(found))
	for _, m := range found {
		link := Link{Index: m.Index, Up: m.Flags&unix.IFF_UP != 0}
		if m.Attributes != nil {
			link.Name, link.Lower = m.Attributes.Name, m.Attributes.Type
			if m.Attributes.Info != nil {
				link.Kind = m.Attributes.Info.Kind
			}
			if m.Attributes.Master != nil {
				link.Master = *m.Attributes.Master
			}
		}
		list = append(list, link)
	}
	return list, nil
}

// Links returns the current network interfaces of this host.
func (w *Watcher) Links() ([]Link, error) { return Links() }

// NameLinks returns the addresses with the names of their links. Without links, the names are
// empty.
func NameLinks(found []Address, links []Link) []Address {
	names := make(map[uint32]string, len(links))
	for _, l := range links {
		names[l.Index] = l.Name
	}
	named := slices.Clone(found)
	for i := range named {
		named[i].LinkName = names[named[i].Link]
	}
	return named
}
