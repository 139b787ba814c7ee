// SPDX-License-Identifier: Apache-2.0

// Package messageid contains the kinds of journal entries: the stable MESSAGE_ID of
// each, and the journal catalog that explains them in `journalctl -x`. The controller
// links it.
package messageid
