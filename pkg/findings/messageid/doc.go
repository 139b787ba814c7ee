// SPDX-License-Identifier: Apache-2.0

// Package messageid contains the kinds of journal entries with the stable MESSAGE_ID of each. The
// controller links it.
package messageid
