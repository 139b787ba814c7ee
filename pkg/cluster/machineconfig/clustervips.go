// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Values of an Infrastructure (config.openshift.io/v1).
const (
	managedByOpenShift = "OpenShiftManagedDefault" // loadBalancer.type
	managedByUser      = "UserManaged"
	managedByBGP       = "BGP" // vipManagement
	managedKeepalived  = "Keepalived"

	controlPlaneElsewhere = "External" // controlPlaneTopology of a hosted control plane
)

// keepalivedPlatforms are those whose hosts run keepalived for the VIPs
// (machine-config-operator, templates/common/on-prem), and the key of each below
// status.platformStatus.
func keepalivedPlatforms() map[string]string {
	return map[string]string{
		"BareMetal": "baremetal", "OpenStack": "openstack", "VSphere": "vsphere", "Nutanix": "nutanix", "oVirt": "ovirt",
	}
}

// otherPlatforms say why there is nothing to do on a host, and what to do instead.
func otherPlatforms() map[string][2]string {
	cloud := [2]string{"a load balancer of the cloud has the API's address, and no host", "lead port 80 of that address to the routers, or use DNS-01 for the API's name"}
	own := [2]string{
		"no keepalived runs on the hosts, and there are no VIPs",
		"on a single node the router answers on the API's address already; before several there is a load balancer of your own: lead its port 80 to the routers",
	}
	bare := [2]string{"no keepalived runs on the hosts", "lead port 80 of the API's address to the routers where that address is"}
	return map[string][2]string{
		"AWS": cloud, "Azure": cloud, "GCP": cloud, "IBMCloud": cloud, "PowerVS": cloud, "AlibabaCloud": cloud,
		"None": own, "External": own, "EquinixMetal": bare, "Libvirt": bare,
		"KubeVirt": {"no keepalived runs on the hosts: the cluster below has the API's address", "lead port 80 of that address to the routers, or use DNS-01 for the API's name"},
	}
}

// platformPath is what the VIPs are below.
const platformPath = "status.platformStatus"

// vips are the cluster's virtual IPs, at most one of each family in either list.
type vips struct {
	api, ingress []netip.Addr
}

// vips takes them out of the status of an Infrastructure.
func (r *clusterReader) vips(o clusterObject) vips {
	const path = platformPath
	if topology := find(o.node, []string{"status", "controlPlaneTopology"}); topology != nil && textOf(topology) == controlPlaneElsewhere {
		r.refuse(placeOf(o.file, topology), "status.controlPlaneTopology is "+controlPlaneElsewhere+": the API server runs outside of this cluster, and no host of it has the API's address",
			"lead port 80 of the API's address to the routers where that address is, or use DNS-01 for the API's name")
		return vips{}
	}
	status := find(o.node, []string{"status", "platformStatus"})
	if status == nil {
		r.refuse(placeOf(o.file, o.node), path+" is absent", mendObjects(kindInfrastructure)+": the installer's manifest has none yet")
		return vips{}
	}
	if status.Kind != yaml.MappingNode {
		r.refuse(placeOf(o.file, status), path+" is no mapping", mendObjects(kindInfrastructure))
		return vips{}
	}
	platform := member(status, "type")
	key, ok := r.platform(o.file, status, platform)
	if !ok {
		return vips{}
	}
	section, sectionPath := member(status, key), path+"."+key
	if section == nil || section.Kind != yaml.MappingNode {
		r.refuse(placeOf(o.file, platform), sectionPath+" is absent: there are no VIPs", mendNoVIPs(platform.Value))
		return vips{}
	}
	if !r.managed(o.file, section, sectionPath) {
		return vips{}
	}
	return r.pairs(o.file, section, sectionPath, mendNoVIPs(platform.Value))
}

func mendNoVIPs(platform string) string {
	return fmt.Sprintf("a %s cluster without VIPs has a load balancer of your own: lead port 80 of the API's address to the routers there", platform)
}

// platform finds the key of a platform whose hosts run keepalived.
func (r *clusterReader) platform(file string, status, platform *yaml.Node) (key string, ok bool) {
	const path = "status.platformStatus.type"
	name := textOf(platform)
	if name == "" {
		r.refuse(placeOf(file, status), path+" is absent", mendObjects(kindInfrastructure))
		return "", false
	}
	if key, ok = keepalivedPlatforms()[name]; ok {
		return key, true
	}
	if why, known := otherPlatforms()[name]; known {
		r.refuse(placeOf(file, platform), "platform "+name+": "+why[0], why[1])
		return "", false
	}
	r.refuse(placeOf(file, platform), fmt.Sprintf("platform %.100q is not known to this release", name), "known are "+strings.Join(slices.Sorted(maps.Keys(keepalivedPlatforms())), ", ")+": if its hosts run keepalived, render without --apiserver and --infrastructure: hosts then read keepalived.conf")
	return "", false
}

// managed refuses VIPs that keepalived does not hold.
func (r *clusterReader) managed(file string, section *yaml.Node, path string) bool {
	for _, one := range []struct {
		keys           []string
		good, bad      string
		reason, remedy string
	}{
		{
			[]string{"loadBalancer", "type"},
			managedByOpenShift, managedByUser,
			"the VIPs are on a load balancer of your own, and never on a host", "lead port 80 of the API's address to the routers on that load balancer",
		},
		{
			[]string{"vipManagement"},
			managedKeepalived, managedByBGP,
			"the VIPs are announced by BGP: no keepalived runs that this service follows", "lead port 80 of the API's address to the routers in your network, or use DNS-01 for the API's name",
		},
	} {
		n := find(section, one.keys)
		if n == nil || blank(n) {
			continue
		}
		name := path + "." + strings.Join(one.keys, ".")
		switch textOf(n) {
		case one.good:
		case one.bad:
			r.refuse(placeOf(file, n), name+" is "+one.bad+": "+one.reason, one.remedy)
			return false
		default:
			r.refuse(placeOf(file, n), fmt.Sprintf("%s is %s, which this release does not know", name, named(n)), "use a release that does, or render without --apiserver and --infrastructure: hosts then read keepalived.conf")
			return false
		}
	}
	return true
}

// pairs takes both lists. Each family of the one has to be in the other.
func (r *clusterReader) pairs(file string, section *yaml.Node, path, mendNone string) vips {
	before := len(r.problems) + r.more
	api := r.addresses(file, section, path, "API", "apiServerInternalIPs", "apiServerInternalIP", mendNone)
	ingress := r.addresses(file, section, path, "ingress", "ingressIPs", "ingressIP", mendNone)
	if len(r.problems)+r.more > before {
		return vips{} // the one that is missed may be the one that has a problem
	}
	r.paired(file, api, ingress, "API", "ingress")
	r.paired(file, ingress, api, "ingress", "API")
	return vips{addrsOf(api), addrsOf(ingress)}
}

// paired refuses what has no address of its family in the other list.
func (r *clusterReader) paired(file string, list, others []placedAddr, what, other string) {
	for _, a := range list {
		if !slices.ContainsFunc(others, func(b placedAddr) bool { return a.addr.Is4() == b.addr.Is4() }) {
			r.refuse(placeOf(file, a.node), fmt.Sprintf("%s VIP %v has no %s %s VIP beside it", what, a.addr, familyOf(a.addr), other), "give the cluster both VIPs of a family, or neither, and the Infrastructure again")
		}
	}
}

// placedAddr is an address and where it stands.
type placedAddr struct {
	addr netip.Addr
	node *yaml.Node
}

func addrsOf(all []placedAddr) []netip.Addr {
	out := make([]netip.Addr, len(all))
	for i, a := range all {
		out[i] = a.addr
	}
	return out
}

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// addresses takes a list of VIPs, or the single one that clusters have whose
// Infrastructure is older than the list (before OpenShift 4.12).
func (r *clusterReader) addresses(file string, section *yaml.Node, path, what, list, single, mendNone string) (all []placedAddr) {
	n, name := member(section, list), path+"."+list
	var nodes []*yaml.Node
	switch {
	case n != nil && !blank(n) && n.Kind != yaml.SequenceNode:
		r.refuse(placeOf(file, n), name+" is no list", mendObjects(kindInfrastructure))
		return nil
	case n != nil && !blank(n):
		nodes = n.Content
	default:
		if old := member(section, single); old != nil && !blank(old) {
			name, nodes = path+"."+single, []*yaml.Node{old}
		}
	}
	if len(nodes) == 0 {
		r.refuse(placeOf(file, section), fmt.Sprintf("%s has no %s VIP", path, what), mendNone)
		return nil
	}
	for i, n := range nodes {
		where := name
		if strings.HasSuffix(name, "s") {
			where = fmt.Sprintf("%s[%d]", name, i)
		}
		addr, ok := r.address(file, n, where)
		if !ok {
			continue
		}
		if slices.ContainsFunc(all, func(b placedAddr) bool { return b.addr.Is4() == addr.Is4() }) {
			r.refuse(placeOf(file, n), fmt.Sprintf("%s: %v: %s must contain at most one IPv4 address and at most one IPv6 address", where, addr, list), "keep one of each family")
			continue
		}
		all = append(all, placedAddr{addr, n})
	}
	return all
}

// address judges one VIP as a host does in its configuration.
func (r *clusterReader) address(file string, n *yaml.Node, where string) (netip.Addr, bool) {
	refuse := func(mend, message string) (netip.Addr, bool) {
		r.refuse(placeOf(file, n), fmt.Sprintf("%s: %s %s", where, named(n), message), mend)
		return netip.Addr{}, false
	}
	const mend = "give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5"
	addr, err := netip.ParseAddr(textOf(n))
	switch {
	case err != nil && strings.Contains(textOf(n), "/"):
		return refuse("leave the mask out", "carries a mask")
	case err != nil:
		return refuse(mend, "is no address")
	case addr.Zone() != "":
		return refuse("give the address without its zone; a virtual IP is not link-local", "carries an IPv6 zone")
	case addr.Is4In6():
		return refuse("write "+addr.Unmap().String(), "is an IPv4 address in IPv6 clothes")
	case !addr.IsGlobalUnicast():
		return refuse("give the address that clients reach", "cannot be a virtual IP")
	}
	return addr, true
}
