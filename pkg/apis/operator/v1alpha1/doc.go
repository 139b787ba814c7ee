// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 owns the other form of the API: HTTP01Proxy,
// operator.openshift.io/v1alpha1, as proposed for cert-manager-operator. The types accept
// every revision of the proposal. Only the administrator's tool links the package.
//
// The CRD belongs to cert-manager-operator, so none is delivered. test/suites/apis
// generates one from these types and compares the renderer with it.
//
// +groupName=operator.openshift.io
// +versionName=v1alpha1
package v1alpha1
