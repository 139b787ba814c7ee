// SPDX-License-Identifier: Apache-2.0

// Package rehearsal shows what users of cert-manager run: a Certificate for the API's name,
// from its objects to the certificate that the API server presents, and its renewal after
// the VIP has moved. `make rehearsal` prints the steps, and the tests run them.
//
// [Scale] requests many Certificates at once and injects faults. Each request that fails must
// belong to a fault.
//
// The package cluster names the real programs, and what the agents do in place of other
// parts of OpenShift. The module is separate, and its programs are in another one, so that
// other tests do not compile Kubernetes.
package rehearsal
