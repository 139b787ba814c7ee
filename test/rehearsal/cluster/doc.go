// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a Kubernetes API with cert-manager in a lab (test/support/lab).
//
// The real programs, compiled from their Go modules, are etcd and kube-apiserver with their own
// certificates, cert-manager's controllers, and its solver. The API servers run on the first two
// control-plane nodes. HAProxy on each control-plane node balances them: rules of these nodes
// redirect port 6443 of the API VIPs to it, as in OpenShift. cert-manager's controllers run in the
// network of a pod, with the lab's DNS and the settings of Red Hat's operator.
//
// Agents do the work of a cluster's other controllers, as API clients in this process: nodeagent
// (scheduler, kubelet, EndpointSlices), routeagent (ingress-to-route and router), servingagent
// (the reload of a named certificate) and configagent (OpenShift's operators for the tutorial).
//
// It leaves out RBAC (every client may do everything), admission of ServiceAccounts,
// kube-controller-manager ([Cluster.CollectGarbage] deletes the objects of a deleted owner), and
// cert-manager's webhook: only the CRDs' schemas validate its objects. Services get addresses, but
// nothing serves them.
package cluster
