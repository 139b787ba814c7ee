// SPDX-License-Identifier: Apache-2.0

// Package certificatefiles tests the script of docs/install/other-kubernetes.md, which copies a
// certificate from its Secret to files. The code with which kube-apiserver reloads such files
// reads them.
package certificatefiles
