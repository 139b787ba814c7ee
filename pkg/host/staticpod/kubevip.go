// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// defaultTable is kube-vip's default routing table for its routes (vip_routingtableid).
const defaultTable = 198

// ReadKubeVIP reads kube-vip's static pods in dir, a manifest directory of the kubelet. Their file
// names contain "kube-vip".
func ReadKubeVIP(dir string) (Discovery, error) {
	matches := func(file string) bool { return strings.Contains(file, "kube-vip") }
	return readPods("kube-vip", dir, matches, (*Discovery).addKubeVIPPod)
}

// NewKubeVIPReader returns a Reader of kube-vip's static pods.
func NewKubeVIPReader(dir string) *Reader { return &Reader{read: ReadKubeVIP, dir: dir} }

// Selected reports whether kube-vip manages the VIPs, by the configuration or else by its
// static pods.
func (d Discovery) Selected(m config.Management) bool {
	return m == config.ManagementBGP || m == config.ManagementDetected && d.Present
}

// Missing returns which VIPs kube-vip's static pods lack, or nil.
func (d Discovery) Missing() error {
	switch {
	case !d.Present:
		return errors.New("there is no static pod of kube-vip")
	case len(d.VIPs.API) == 0:
		return errors.New("kube-vip's static pods have no API VIP")
	case len(d.VIPs.Ingress) == 0:
		return fmt.Errorf("kube-vip's static pods have API VIP %v but no ingress VIP", d.VIPs.API[0])
	}
	return nil
}

func (d *Discovery) addKubeVIPPod(pod manifest) error {
	for _, c := range pod.Spec.Containers {
		env := make(map[string]string)
		for _, v := range c.Env {
			env[v.Name] = v.Value
		}
		inTable := enabled(env["vip_routingtable"])
		if !inTable && !enabled(env["bgp_enable"]) {
			continue // in ARP mode, one host holds the VIP
		}
		d.Present = true
		name := "address"
		if env[name] == "" && env["vip_address"] != "" {
			name = "vip_address" // of earlier versions
		}
		vip, err := parseVIP("the variable "+name, env[name])
		if err != nil {
			return err
		}
		if inTable {
			if err := d.addTable(vip, env["vip_routingtableid"]); err != nil {
				return err
			}
		}
		list := &d.VIPs.API
		if strings.Contains(pod.Metadata.Name, "ingress") {
			list = &d.VIPs.Ingress
		}
		if !slices.Contains(*list, vip) {
			*list = append(*list, vip)
		}
	}
	return nil
}

// enabled reports whether a variable of kube-vip is true. kube-vip parses it like this too.
func enabled(value string) bool {
	is, err := strconv.ParseBool(value)
	return err == nil && is
}

func (d *Discovery) addTable(vip netip.Addr, value string) error {
	table := uint64(defaultTable)
	if value != "" {
		var err error
		if table, err = strconv.ParseUint(value, 10, 32); err != nil || table == 0 {
			return fmt.Errorf("the variable vip_routingtableid is %.100q, which is not the number of a routing table", value)
		}
	}
	if d.Tables == nil {
		d.Tables = make(map[netip.Addr]uint32)
	}
	d.Tables[vip] = uint32(table)
	return nil
}
