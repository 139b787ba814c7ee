// SPDX-License-Identifier: Apache-2.0

// Package servingagent gives API servers the certificate in a Secret. It does the work of
// OpenShift's kube-apiserver-operator for one entry of
// APIServer.spec.servingCerts.namedCertificates: its files are replaced when the Secret changes,
// and the API server reads them again without a restart.
//
// It leaves out the first roll-out: in OpenShift a new entry restarts the API servers one after
// the other. Here the files exist from the start, with a certificate of the cluster's own CA.
package servingagent
