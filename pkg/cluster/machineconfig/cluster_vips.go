// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// infrastructure has the fields of an Infrastructure (config.openshift.io/v1) that are read.
type infrastructure struct {
	Status struct {
		APIServerURL         string `json:"apiServerURL"`
		ControlPlaneTopology string `json:"controlPlaneTopology"`
		Platform             struct {
			Type string `json:"type"`

			// The platforms whose hosts run keepalived for the VIPs (machine-config-operator,
			// templates/common/on-prem).
			BareMetal *platformVIPs `json:"baremetal"`
			Nutanix   *platformVIPs `json:"nutanix"`
			OpenStack *platformVIPs `json:"openstack"`
			VSphere   *platformVIPs `json:"vsphere"`
			OVirt     *platformVIPs `json:"ovirt"`
		} `json:"platformStatus"`
	} `json:"status"`
}

// platformVIPs has the fields of a platform whose hosts run keepalived. Since OpenShift 4.12, the
// lists have the single VIP of earlier releases too (the cluster-network-operator's
// pkg/controller/infrastructureconfig/sync_vips.go).
type platformVIPs struct {
	APIServerInternalIPs []string `json:"apiServerInternalIPs"`
	IngressIPs           []string `json:"ingressIPs"`
	VIPManagement        string   `json:"vipManagement"`
	LoadBalancer         struct {
		Type string `json:"type"`
	} `json:"loadBalancer"`
}

// clusterVIPs are the virtual IPs of a cluster.
type clusterVIPs struct {
	api, ingress []string
	management   string // BGP: kube-vip manages them; empty: keepalived
}

func (v clusterVIPs) settings(from string) []setting {
	all := []setting{{[]string{"vips", "api"}, v.api, from}, {[]string{"vips", "ingress"}, v.ingress, from}}
	if v.management != "" {
		all = append(all, setting{[]string{"vips", "management"}, v.management, from})
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
	platform := parsed.Status.Platform
	vips, keepalived := map[string]*platformVIPs{
		"BareMetal": platform.BareMetal, "Nutanix": platform.Nutanix, "OpenStack": platform.OpenStack,
		"VSphere": platform.VSphere, "oVirt": platform.OVirt,
	}[platform.Type]
	reason := ""
	switch {
	case parsed.Status.ControlPlaneTopology == "External":
		reason = "the API server runs outside this cluster, and no host has the API's address"
	case platform.Type == "":
		return o.problem("status.platformStatus.type", "absent",
			`give the output of "oc get infrastructure cluster -o yaml": the manifest of the installer has no status yet`)
	case !keepalived:
		reason = fmt.Sprintf("platform %.100q: OpenShift runs no keepalived there", platform.Type)
	case vips != nil && vips.LoadBalancer.Type == "UserManaged":
		reason = "UserManaged: the VIPs belong to a load balancer of your own, not to a host"
	case vips == nil || len(vips.APIServerInternalIPs) == 0 || len(vips.IngressIPs) == 0:
		reason = fmt.Sprintf("platform %s has no API VIP, or no ingress VIP", platform.Type)
	}
	if reason != "" {
		return o.problem("status", reason, "forward port 80 of the API's address to the routers, on the load balancer or "+
			"machine with that address, or use DNS-01 for the API's name; the router of a single node already has that address")
	}
	w.vips = clusterVIPs{api: vips.APIServerInternalIPs, ingress: vips.IngressIPs, management: vips.VIPManagement}
	if w.vips.management == string(config.ManagementKeepalived) {
		w.vips.management = ""
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
