// SPDX-License-Identifier: Apache-2.0

// Package chain follows a certificate of the API through the objects of the cluster, from the APIServer
// to cert-manager's challenge and the nodes, and finds the object at which it fails. [Read] calls oc; all
// else is pure. Only the administrator's tool links it.
package chain
