// SPDX-License-Identifier: Apache-2.0

// Package condition owns what the reports of all hosts say together: one
// condition of the cluster, in the shape of Kubernetes' metav1.Condition.
//
// It reads no file and no clock: the same reports give the same condition.
package condition
