// SPDX-License-Identifier: Apache-2.0

// Package kubevip reads the API and ingress VIPs of a cluster from kube-vip's static pods. The
// controller and `check` link it.
//
// OpenShift runs kube-vip instead of keepalived where vipManagement is BGP
// (machine-config-operator pull request 6326, openshift/api 2923). Each pod manages one VIP:
// its environment variable "address". While the health check of a pod succeeds, kube-vip adds
// the VIP to a link of the host and a route to routing table 198, which FRR announces
// (kube-vip pkg/cluster/service.go). So every healthy host holds the VIP at the same time.
package kubevip
