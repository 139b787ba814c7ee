// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"slices"
	"sync"
)

// tables are the entries and the ways to find them. Nobody changes them.
type tables struct {
	list    []Entry
	byID    map[ID]Entry
	byCause map[string]ID
}

// table is made once: the gate looks a cause up for each challenge that fails, and a
// flood of these must not make a catalogue each.
var table = sync.OnceValue(func() tables { //nolint:gochecknoglobals // see above
	t := tables{list: entries(), byID: make(map[ID]Entry), byCause: make(map[string]ID)}
	for _, e := range t.list {
		t.byID[e.ID] = e
		if e.Cause != "" {
			t.byCause[e.Cause] = e.ID
		}
	}
	return t
})

// entries joins what the files of this package have, in the order of the checks.
func entries() []Entry {
	return slices.Concat(
		nftablesEntries(), portEntries(), vipsEntries(), microShiftEntries(), internalAddressEntries(), holderEntries(), rulesetEntries(),
		ingressEntries(), microShiftRouterEntries(), egressEntries(), routeEntries(), challengeEntries(), dnsEntries(),
		proxyEntries(), doorEntries(), certificateEntries(), microShiftCertificateEntries(), pathEntries(), conntrackEntries(), clockEntries(),
		configEntries(), trustEntries(), serviceEntries(),
	)
}
