// SPDX-License-Identifier: Apache-2.0

// Package rehearsal shows what users of cert-manager see: from a Certificate for the API's name
// to the certificate that the API server presents, and its renewal after the VIP moved.
// `make rehearsal` prints the steps, and the tests run them.
//
// [Scale] requests many Certificates at once and injects faults. Each failed request must belong
// to a fault.
//
// Package cluster names the real programs, and what agents do instead of other parts of
// OpenShift. The module is separate, and so is the one of its programs, so that other tests do
// not compile Kubernetes.
package rehearsal
