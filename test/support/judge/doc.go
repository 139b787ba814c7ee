// SPDX-License-Identifier: Apache-2.0

// Package judge owns what others say about the objects that an admin applies:
// Ignition's own validation, and the schemas of openshift/api and of
// prometheus-operator run by the code of the Kubernetes API server: pruning,
// defaulting, OpenAPI validation, CEL rules and server-side apply.
//
// The schemas are those of the newest release that the module version of
// openshift/api in go.mod knows, and those of the prometheus-operator of
// OpenShift 4.17, the oldest release that there are manifests for; they are read
// from the module cache, which takes the go command and a working directory
// inside this module. Know takes any other CRD instead.
package judge
