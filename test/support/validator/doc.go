// SPDX-License-Identifier: Apache-2.0

// Package validator validates objects that an administrator applies. It uses Ignition's own
// validation, and the schemas of openshift/api and prometheus-operator with the code of the
// Kubernetes API server: pruning, defaulting, OpenAPI validation, CEL rules and server-side
// apply.
//
// The schemas come from the newest OpenShift release in the module version of openshift/api in
// go.mod, and from the prometheus-operator of OpenShift 4.17, the oldest supported release.
// They are read from the module cache, which needs the go command and a working directory
// inside this module. New accepts other CRDs.
package validator
