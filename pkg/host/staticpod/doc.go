// SPDX-License-Identifier: Apache-2.0

// Package staticpod reads the API and ingress VIPs of a cluster from the manifests of OpenShift's
// static pods: keepalived's or kube-vip's. The controller and `check` link it.
//
// keepalived's pod lists the VIPs of the whole cluster, in its order, as arguments
// (machine-config-operator templates/common/on-prem/files/keepalived.yaml).
//
// OpenShift runs kube-vip instead of keepalived where vipManagement is BGP
// (machine-config-operator pull request 6326, openshift/api 2923). Each pod manages one VIP:
// its environment variable "address". While the health check of a pod succeeds, kube-vip adds
// the VIP to a link of the host and a route to routing table 198, which FRR announces
// (kube-vip pkg/cluster/service.go). So every healthy host holds the VIP at the same time.
package staticpod
