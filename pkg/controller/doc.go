// SPDX-License-Identifier: Apache-2.0

// Package controller owns the running service: it constructs its parts (one folder each),
// starts them as one group of tasks and stops them in order. The first task that fails stops
// all others. The controller process links it.
package controller
