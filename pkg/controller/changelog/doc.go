// SPDX-License-Identifier: Apache-2.0

// Package changelog writes a journal entry for each change of the state and of a VIP. If
// something changes again and again, one entry every ten seconds has the number of its
// changes and the last one. The controller links it.
package changelog
