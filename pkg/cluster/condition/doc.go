// SPDX-License-Identifier: Apache-2.0

// Package condition combines the reports of all hosts into one condition of the
// cluster, in the form of Kubernetes' metav1.Condition. It reads no file and no clock:
// the same reports give the same condition. Only the administrator's tool links it.
package condition
