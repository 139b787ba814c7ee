// SPDX-License-Identifier: Apache-2.0

// Package result is the output of `http01-proxyd check`: the result of each check, the
// report of all of them, and its text. `check` and the administrator's tool link it.
package result
