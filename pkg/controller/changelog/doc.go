// SPDX-License-Identifier: Apache-2.0

// Package changelog writes a journal entry for each change of the state and of a VIP. If
// something keeps changing, one entry every ten seconds reports the number of changes and the
// last one. The controller links it.
package changelog
