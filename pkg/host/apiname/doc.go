// SPDX-License-Identifier: Apache-2.0

// Package apiname owns how the API is called by those outside the cluster, as far
// as a file of the host that anybody may read tells it.
package apiname
