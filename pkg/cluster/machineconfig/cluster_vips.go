// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Values of an Infrastructure (config.openshift.io/v1).
const (
	managedByOpenShift   = "OpenShiftManagedDefault" // loadBalancer.type
	managedByUser        = "UserManaged"
	externalControlPlane = "External" // controlPlaneTopology of a hosted control plane
	platformPath         = "status.platformStatus"
	apiServerURLPath     = "status.apiServerURL"
)

// infrastructure has the fields of an Infrastructure that are read.
type infrastructure struct {
	Status struct {
		APIServerURL         string                     `json:"apiServerURL"`
		ControlPlaneTopology string                     `json:"controlPlaneTopology"`
		PlatformStatus       map[string]json.RawMessage `json:"platformStatus"`
	} `json:"status"`
}

// platformVIPs has the fields of a platform whose hosts run keepalived. Clusters that were
// installed before OpenShift 4.12 may have the single VIP only.
type platformVIPs struct {
	APIServerInternalIPs []string `json:"apiServerInternalIPs"`
	APIServerInternalIP  string   `json:"apiServerInternalIP"`
	IngressIPs           []string `json:"ingressIPs"`
	IngressIP            string   `json:"ingressIP"`
	VIPManagement        string   `json:"vipManagement"`
	LoadBalancer         struct {
		Type string `json:"type"`
	} `json:"loadBalancer"`
}

// keepalivedPlatforms lists the platforms whose hosts run keepalived for the VIPs
// (machine-config-operator, templates/common/on-prem). The key below
// status.platformStatus is the name in lower case.
func keepalivedPlatforms() []string {
	return []string{"BareMetal", "Nutanix", "OpenStack", "VSphere", "oVirt"}
}

// clusterVIPs are the virtual IPs of a cluster.
type clusterVIPs struct {
	api, ingress []string
	bgp          bool // kube-vip manages them instead of keepalived
}

func (v clusterVIPs) settings(from string) []setting {
	all := []setting{{[]string{"vips", "api"}, v.api, from}, {[]string{"vips", "ingress"}, v.ingress, from}}
	if v.bgp {
		all = append(all, setting{[]string{"vips", "management"}, string(config.ManagementBGP), from})
	}
	return all
}

// readInfrastructure reads the VIPs and the domain. A disabled proxy needs no VIPs, so
// disabling works on every platform.
func (w *clusterSettings) readInfrastructure(o ReadObject) error {
	var parsed infrastructure
	if err := o.Load(&parsed); err != nil {
		return err
	}
	w.vipsSource, w.domain = o.File, clusterDomain(parsed.Status.APIServerURL)
	if w.proxy.disabled() {
		return nil
	}
	section, err := parsed.section(o)
	if err != nil {
		return err
	}
	var vips platformVIPs
	if err := section.Load(&vips); err != nil {
		return err
	}
	if err := vips.checkManagement(section); err != nil {
		return err
	}
	list := func(all []string, single string) []string {
		if len(all) == 0 && single != "" {
			return []string{single}
		}
		return all
	}
	w.vips = clusterVIPs{
		list(vips.APIServerInternalIPs, vips.APIServerInternalIP), list(vips.IngressIPs, vips.IngressIP),
		vips.VIPManagement == string(config.ManagementBGP),
	}
	if len(w.vips.api) == 0 || len(w.vips.ingress) == 0 {
		return section.problem("", "there is no API VIP, or no ingress VIP", noVIPsRemediation)
	}
	return checkValues(section, w.vips.settings(o.File))
}

const noVIPsRemediation = "a cluster without VIPs has a load balancer of your own: forward port 80 of the API's " +
	"address to the routers there"

// section returns the section of a platform whose hosts run keepalived.
func (i infrastructure) section(o ReadObject) (ReadObject, error) {
	if i.Status.ControlPlaneTopology == externalControlPlane {
		return o, o.problem("status.controlPlaneTopology", externalControlPlane+": the API server runs outside this "+
			"cluster, and no host has the API's address",
			"forward port 80 of the API's address to the routers, on the machine with that address, or use DNS-01 for the "+
				"API's name")
	}
	var platform string
	if text := i.Status.PlatformStatus["type"]; !isAbsent(text) {
		if err := o.field(platformPath+".type", text).Load(&platform); err != nil {
			return o, err
		}
	}
	switch {
	case platform == "":
		return o, o.problem(platformPath+".type", "absent",
			`give the output of "oc get infrastructure cluster -o yaml": the manifest of the installer has no status yet`)
	case !slices.Contains(keepalivedPlatforms(), platform):
		message := fmt.Sprintf("platform %.100q: OpenShift runs keepalived only on %s", platform,
			strings.Join(keepalivedPlatforms(), ", "))
		return o, o.problem(platformPath, message, "forward port 80 of the API's address to the routers, on the load "+
			"balancer or machine with that address, or use DNS-01 for the API's name; the router of a single node already "+
			"has that address")
	}
	key := strings.ToLower(platform)
	section := o.field(platformPath+"."+key, i.Status.PlatformStatus[key])
	if isAbsent(section.text) {
		return o, section.problem("", "absent: there are no VIPs", noVIPsRemediation)
	}
	return section, nil
}

// checkManagement rejects VIPs that neither keepalived nor kube-vip manages.
func (v platformVIPs) checkManagement(section ReadObject) error {
	reject := func(field, value string) error {
		if value == managedByUser {
			return section.problem(field, managedByUser+": the VIPs belong to a load balancer of your own, not to a host",
				"forward port 80 of the API's address to the routers on that load balancer")
		}
		return section.problem(field, fmt.Sprintf("%.100q, which this release does not support", value),
			"use a release that supports it, or render without objects of the cluster, and the hosts read keepalived.conf")
	}
	if t := v.LoadBalancer.Type; t != "" && t != managedByOpenShift {
		return reject("loadBalancer.type", t)
	}
	if m := v.VIPManagement; !slices.Contains(
		[]string{"", string(config.ManagementKeepalived), string(config.ManagementBGP)}, m) {
		return reject("vipManagement", m)
	}
	return nil
}

// clusterDomain derives the domain of a cluster from the URL of its API for external
// clients, https://api.<domain>:6443. A URL of another form than the installer's gives no
// domain.
func clusterDomain(apiServerURL string) string {
	u, err := url.Parse(apiServerURL)
	if err != nil {
		return ""
	}
	name, is := strings.CutPrefix(strings.ToLower(u.Hostname()), "api.")
	if !is || !isClusterDomain(name) {
		return ""
	}
	return name
}
