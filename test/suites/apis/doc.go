// SPDX-License-Identifier: Apache-2.0

// Package apis tests the API, spec.http01ChallengeProxy of the APIServer resource.
// machineconfigs/crd must match the types in pkg/apis and fit the CRDs that OpenShift ships.
// The API server and the renderer must accept and reject the same objects, from new and old
// clients, also in the other form, HTTP01Proxy, in every revision of its proposal.
package apis
