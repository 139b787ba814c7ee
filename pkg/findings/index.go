// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"slices"
	"sync"
)

// index contains the entries with lookups by ID and cause. It is immutable.
type index struct {
	entries []Entry
	byID    map[ID]Entry
	byCause map[string]ID
	causes  []string
}

// loadIndex builds the index once. The proxy looks up a cause for each failed challenge,
// so a flood of these must not build it again each time.
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

// entries concatenates the entries of all files in the order of the checks.
func entries() []Entry {
	return slices.Concat(
		nftablesEntries(), portEntries(), vipsEntries(), microShiftEntries(), internalAddressEntries(), vipHolderEntries(), rulesetEntries(),
		ingressEntries(), microShiftRouterEntries(), egressEntries(), routeEntries(), challengeEntries(), dnsEntries(),
		clusterProxyEntries(), vipPortEntries(), certificateEntries(), microShiftCertificateEntries(), mtuEntries(), conntrackEntries(), clockEntries(),
		configEntries(), caBundleEntries(), serviceEntries(),
	)
}
