// SPDX-License-Identifier: Apache-2.0

// Package v1 owns the API: spec.http01ChallengeProxy of the APIServer resource,
// config.openshift.io/v1. Of that resource it knows this one field.
//
// machineconfigs/crd is made of these types: `make crd`.
//
// +groupName=config.openshift.io
// +versionName=v1
package v1
