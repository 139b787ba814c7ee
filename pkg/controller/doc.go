// SPDX-License-Identifier: Apache-2.0

// Package controller owns the running service: it joins the parts, starts them as
// one group of tasks and stops them in order.
//
// The first task that fails stops all others; no task ends silently.
package controller
