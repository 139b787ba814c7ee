// SPDX-License-Identifier: Apache-2.0

// Package terminal owns the text forms of status, check and trace. Both programs link it.
package terminal
