// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a Kubernetes API with cert-manager in a lab (test/support/lab).
//
// These programs are the real ones, compiled from their Go modules: etcd and kube-apiserver
// with certificates of their own, cert-manager's controllers, and its solver. The API
// servers are on the first two control-plane nodes. HAProxy on each control-plane node
// balances them: rules of these nodes redirect port 6443 of the API VIPs to it, as in
// OpenShift. cert-manager's controllers run in the network of a pod, with the DNS of the
// lab and the settings of Red Hat's operator.
//
// Agents do the work of a cluster's other controllers: nodeagent (scheduler, kubelet,
// EndpointSlices), routeagent (ingress-to-route and router), servingagent (the reload of a
// named certificate) and configagent (OpenShift's operators for the tutorial). They use the
// API as clients of this process.
//
// It leaves out RBAC (every client has all rights), admission of ServiceAccounts,
// kube-controller-manager ([Cluster.CollectGarbage] deletes the objects of a deleted owner),
// and cert-manager's webhook: only the schemas of the CRDs validate its objects. Service
// addresses are allocated, but nothing serves them.
package cluster
