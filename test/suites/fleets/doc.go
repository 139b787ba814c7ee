// SPDX-License-Identifier: Apache-2.0

// Package fleets tests the layouts of `oc-http01 render` for GitOps engines. kustomize
// itself builds them, the API server's own code validates the objects, and the hook of
// Argo CD runs as written.
package fleets
