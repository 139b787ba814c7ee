// SPDX-License-Identifier: Apache-2.0

// Package layout owns the folders from which GitOps engines apply the MachineConfigs of
// many clusters: kustomize, Argo CD and Red Hat Advanced Cluster Management. It returns
// files and does no I/O. Only the administrator's tool links it.
package layout
