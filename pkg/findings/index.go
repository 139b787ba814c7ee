// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"slices"
	"sync"
)

// index are the entries and the ways to find them. Nobody changes them.
type index struct {
	entries []Entry
	byID    map[ID]Entry
	byCause map[string]ID
	causes  []string
}

// loadIndex is made once: the gate looks a cause up for each challenge that fails, and a
// flood of these must not make a catalogue each.
var loadIndex = sync.OnceValue(func() index { //nolint:gochecknoglobals // see above
	t := index{entries: entries(), byID: make(map[ID]Entry), byCause: make(map[string]ID)}
	for _, e := range t.entries {
		t.byID[e.ID] = e
		if e.Cause != "" {
			t.byCause[e.Cause] = e.ID
			t.causes = append(t.causes, e.Cause)
		}
	}
	return t
})

// entries joins what the files of this package have, in the order of the checks.
func entries() []Entry {
	return slices.Concat(
		nftablesEntries(), portEntries(), vipsEntries(), microShiftEntries(), internalAddressEntries(), vipHolderEntries(), rulesetEntries(),
		ingressEntries(), microShiftRouterEntries(), egressEntries(), routeEntries(), challengeEntries(), dnsEntries(),
		clusterProxyEntries(), vipPortEntries(), certificateEntries(), microShiftCertificateEntries(), mtuEntries(), conntrackEntries(), clockEntries(),
		configEntries(), caBundleEntries(), serviceEntries(),
	)
}
