// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Values of an Infrastructure (config.openshift.io/v1).
const (
	managedByOpenShift  = "OpenShiftManagedDefault" // loadBalancer.type
	managedByUser       = "UserManaged"
	managedByBGP        = string(config.ManagementBGP) // vipManagement
	managedByKeepalived = string(config.ManagementKeepalived)

	managementKey        = "vipManagement"
	externalControlPlane = "External" // controlPlaneTopology of a hosted control plane
)

// keepalivedPlatforms maps each platform whose hosts run keepalived for the VIPs
// (machine-config-operator, templates/common/on-prem) to its key below
// status.platformStatus.
func keepalivedPlatforms() map[string]string {
	return map[string]string{
		"BareMetal": "baremetal", "OpenStack": "openstack", "VSphere": "vsphere", "Nutanix": "nutanix", "oVirt": "ovirt",
	}
}

// unsupportedPlatforms maps the other platforms to the reason why they are not
// supported, and the remediation.
func unsupportedPlatforms() map[string][2]string {
	cloud := [2]string{"the API's address belongs to a load balancer of the cloud, not to a host", "forward port 80 of that address to the routers, or use DNS-01 for the API's name"}
	own := [2]string{
		"no keepalived runs on the hosts, and there are no VIPs",
		"on a single node the router already listens on the API's address; with several nodes, forward port 80 of your load balancer to the routers",
	}
	bare := [2]string{"no keepalived runs on the hosts", "forward port 80 of the API's address to the routers, on the machine with that address"}
	return map[string][2]string{
		"AWS": cloud, "Azure": cloud, "GCP": cloud, "IBMCloud": cloud, "PowerVS": cloud, "AlibabaCloud": cloud,
		"None": own, "External": own, "EquinixMetal": bare, "Libvirt": bare,
		"KubeVirt": {"no keepalived runs on the hosts: the API's address belongs to the infrastructure cluster", "forward port 80 of that address to the routers, or use DNS-01 for the API's name"},
	}
}

// platformPath is the parent of the VIPs.
const platformPath = "status.platformStatus"

// clusterVIPs are the virtual IPs of a cluster, at most one per family in each list.
type clusterVIPs struct {
	api, ingress []netip.Addr
	bgp          bool // kube-vip manages them instead of keepalived
}

func (r *clusterReader) readVIPs(o clusterObject) clusterVIPs {
	const path = platformPath
	if topology := nodeAt(o.node, []string{"status", "controlPlaneTopology"}); topology != nil && stringValue(topology) == externalControlPlane {
		r.rejectAt(o.file, topology, "status.controlPlaneTopology is "+externalControlPlane+": the API server runs outside this cluster, and no host has the API's address",
			"forward port 80 of the API's address to the routers, on the machine with that address, or use DNS-01 for the API's name")
		return clusterVIPs{}
	}
	status := nodeAt(o.node, []string{"status", "platformStatus"})
	if status == nil {
		r.rejectAt(o.file, o.node, path+" is absent", objectRemediation(kindInfrastructure)+": the manifest of the installer has no status yet")
		return clusterVIPs{}
	}
	if status.Kind != yaml.MappingNode {
		r.rejectAt(o.file, status, path+" is not a mapping", objectRemediation(kindInfrastructure))
		return clusterVIPs{}
	}
	platform := member(status, "type")
	key, ok := r.readPlatform(o.file, status, platform)
	if !ok {
		return clusterVIPs{}
	}
	section, sectionPath := member(status, key), path+"."+key
	if section == nil || section.Kind != yaml.MappingNode {
		r.rejectAt(o.file, platform, sectionPath+" is absent: there are no VIPs", noVIPsRemediation(platform.Value))
		return clusterVIPs{}
	}
	if !r.checkManagement(o.file, section, sectionPath) {
		return clusterVIPs{}
	}
	vips := r.readVIPPairs(o.file, section, sectionPath, noVIPsRemediation(platform.Value))
	vips.bgp = stringValue(member(section, managementKey)) == managedByBGP
	return vips
}

func noVIPsRemediation(platform string) string {
	return fmt.Sprintf("a %s cluster without VIPs has a load balancer of your own: forward port 80 of the API's address to the routers there", platform)
}

// readPlatform returns the key of a platform whose hosts run keepalived.
func (r *clusterReader) readPlatform(file string, status, platform *yaml.Node) (key string, ok bool) {
	const path = "status.platformStatus.type"
	name := stringValue(platform)
	if name == "" {
		r.rejectAt(file, status, path+" is absent", objectRemediation(kindInfrastructure))
		return "", false
	}
	if key, ok = keepalivedPlatforms()[name]; ok {
		return key, true
	}
	if why, known := unsupportedPlatforms()[name]; known {
		r.rejectAt(file, platform, "platform "+name+": "+why[0], why[1])
		return "", false
	}
	r.rejectAt(file, platform, fmt.Sprintf("platform %.100q is not known to this release", name), "supported platforms are "+strings.Join(slices.Sorted(maps.Keys(keepalivedPlatforms())), ", ")+"; if its hosts run keepalived, render without objects of the cluster, and the hosts read keepalived.conf")
	return "", false
}

func (r *clusterReader) checkManagement(file string, section *yaml.Node, path string) bool {
	for _, one := range []struct {
		keys []string
		good []string
	}{
		{[]string{"loadBalancer", "type"}, []string{managedByOpenShift}},
		{[]string{managementKey}, []string{managedByKeepalived, managedByBGP}},
	} {
		n := nodeAt(section, one.keys)
		if n == nil || isBlank(n) {
			continue
		}
		name := path + "." + strings.Join(one.keys, ".")
		switch value := stringValue(n); {
		case slices.Contains(one.good, value):
		case value == managedByUser:
			r.rejectAt(file, n, name+" is "+managedByUser+": the VIPs belong to a load balancer of your own, not to a host", "forward port 80 of the API's address to the routers on that load balancer")
			return false
		default:
			r.rejectAt(file, n, fmt.Sprintf("%s has the value %s, which this release does not support", name, quotedValue(n)), "use a release that supports it, or render without objects of the cluster, and the hosts read keepalived.conf")
			return false
		}
	}
	return true
}

// readVIPPairs reads both lists. Each address family of one list must be in the other.
func (r *clusterReader) readVIPPairs(file string, section *yaml.Node, path, mendNone string) clusterVIPs {
	before := len(r.problems) + r.omittedProblems
	api := r.readAddresses(file, section, path, "API", "apiServerInternalIPs", "apiServerInternalIP", mendNone)
	ingress := r.readAddresses(file, section, path, "ingress", "ingressIPs", "ingressIP", mendNone)
	if len(r.problems)+r.omittedProblems > before {
		return clusterVIPs{} // a missing address may be one with a problem
	}
	r.checkPaired(file, api, ingress, "API", "ingress")
	r.checkPaired(file, ingress, api, "ingress", "API")
	return clusterVIPs{api: addrsOf(api), ingress: addrsOf(ingress)}
}

// checkPaired rejects addresses without an address of the same family in the other
// list.
func (r *clusterReader) checkPaired(file string, list, others []positionedAddr, what, other string) {
	for _, a := range list {
		if !slices.ContainsFunc(others, func(b positionedAddr) bool { return a.addr.Is4() == b.addr.Is4() }) {
			r.rejectAt(file, a.node, fmt.Sprintf("%s VIP %v has no matching %s %s VIP", what, a.addr, printable.Family(a.addr), other), "configure both VIPs of a family or neither, then export the Infrastructure again")
		}
	}
}

type positionedAddr struct {
	addr netip.Addr
	node *yaml.Node
}

func addrsOf(all []positionedAddr) []netip.Addr {
	out := make([]netip.Addr, len(all))
	for i, a := range all {
		out[i] = a.addr
	}
	return out
}

// readAddresses reads a list of VIPs, or the single VIP of clusters that were installed
// before OpenShift 4.12, whose Infrastructure may have no list.
func (r *clusterReader) readAddresses(file string, section *yaml.Node, path, what, list, single, mendNone string) (all []positionedAddr) {
	n, name := member(section, list), path+"."+list
	var nodes []*yaml.Node
	switch {
	case n != nil && !isBlank(n) && n.Kind != yaml.SequenceNode:
		r.rejectAt(file, n, name+" is no list", objectRemediation(kindInfrastructure))
		return nil
	case n != nil && !isBlank(n):
		nodes = n.Content
	default:
		if old := member(section, single); old != nil && !isBlank(old) {
			name, nodes = path+"."+single, []*yaml.Node{old}
		}
	}
	if len(nodes) == 0 {
		r.rejectAt(file, section, fmt.Sprintf("%s has no %s VIP", path, what), mendNone)
		return nil
	}
	for i, n := range nodes {
		where := name
		if strings.HasSuffix(name, "s") {
			where = fmt.Sprintf("%s[%d]", name, i)
		}
		addr, ok := r.readAddress(file, n, where)
		if !ok {
			continue
		}
		if slices.ContainsFunc(all, func(b positionedAddr) bool { return b.addr.Is4() == addr.Is4() }) {
			r.rejectAt(file, n, fmt.Sprintf("%s: %v: %s must contain at most one IPv4 address and at most one IPv6 address", where, addr, list), "keep one of each family")
			continue
		}
		all = append(all, positionedAddr{addr, n})
	}
	return all
}

// readAddress validates one VIP by the rules of the host's configuration.
func (r *clusterReader) readAddress(file string, n *yaml.Node, where string) (netip.Addr, bool) {
	reject := func(remediation, message string) (netip.Addr, bool) {
		r.rejectAt(file, n, fmt.Sprintf("%s: %s %s", where, quotedValue(n), message), remediation)
		return netip.Addr{}, false
	}
	const remediation = "give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5"
	addr, err := netip.ParseAddr(stringValue(n))
	switch {
	case err != nil && strings.Contains(stringValue(n), "/"):
		return reject("remove the mask", "has a mask")
	case err != nil:
		return reject(remediation, "is not an address")
	case addr.Zone() != "":
		return reject("give the address without its zone; a virtual IP is not link-local", "has an IPv6 zone")
	case addr.Is4In6():
		return reject("write "+addr.Unmap().String(), "is an IPv4-mapped IPv6 address")
	case !addr.IsGlobalUnicast():
		return reject("give the address that clients reach", "cannot be a virtual IP")
	}
	return addr, true
}
