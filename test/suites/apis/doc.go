// SPDX-License-Identifier: Apache-2.0

// Package apis owns the proof of the API, spec.http01ChallengeProxy of the
// APIServer resource: machineconfigs/crd is what the types in pkg/apis say, it
// fits the CRDs that OpenShift ships, and with it an API server accepts and
// refuses what it should, from new clients and from old ones.
package apis
