// SPDX-License-Identifier: Apache-2.0

// Package controller owns the running service: it constructs its parts, which have folders of
// their own, starts them as one group of tasks and stops them in order. The first task that fails
// stops all others. The controller process links it.
package controller
