// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"slices"
)

// LastAccepted returns the texts of which the last accepted configuration in the state
// directory must be one. Without a file there must be a reason: absent is true then.
func (m *Model) LastAccepted() (texts []string, absent bool) {
	if m.running && m.config.takes && !m.unwritable && !m.slow {
		return []string{m.text}, false
	}
	// A write that has failed is repeated after 30 s (controller: saveRetryInterval), and one
	// on a slow disk can be in progress. A service that does not run, or whose file is refused,
	// writes nothing.
	return slices.Sorted(maps.Keys(m.texts)), true
}

// CutWrites returns how many temporary files can remain in the state directory: one for each
// write that was interrupted (textfile.Replace), and the one in progress on a slow disk.
func (m *Model) CutWrites() int {
	if m.slow {
		return m.cut + 1
	}
	return m.cut
}

// cutSlow records the end of a process, which does not wait for a write of five seconds.
func (m *Model) cutSlow() {
	if m.slow {
		m.cut++
	}
}
