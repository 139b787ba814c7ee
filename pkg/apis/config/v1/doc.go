// SPDX-License-Identifier: Apache-2.0

// Package v1 owns the API: spec.http01ChallengeProxy of the APIServer resource,
// config.openshift.io/v1. It declares only this field of the resource. No
// program links it: `make crd` and tests use it.
//
// `make crd` generates machineconfigs/crd from these types.
//
// +groupName=config.openshift.io
// +versionName=v1
package v1
