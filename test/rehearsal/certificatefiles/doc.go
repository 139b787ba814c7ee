// SPDX-License-Identifier: Apache-2.0

// Package certificatefiles tests docs/install/other-kubernetes.md on a host that boots, beside
// Kubernetes' own API server. It runs the document's commands word for word, and starts the API
// server with the arguments and mounts of each distribution. kubeadm, RKE2 and MicroShift
// themselves do not run here.
package certificatefiles
