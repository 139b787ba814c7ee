// SPDX-License-Identifier: Apache-2.0

// Package messageid contains the kinds of journal entries with the stable MESSAGE_ID of each. The
// controller and check link it.
package messageid
