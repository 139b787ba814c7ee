// SPDX-License-Identifier: Apache-2.0

package catalogue

import "slices"

// entries joins what the files of this package have, in the order of the checks.
func entries() []Entry {
	return slices.Concat(
		nftablesEntries(), portEntries(), vipsEntries(), holderEntries(), rulesetEntries(),
		ingressEntries(), routeEntries(), challengeEntries(), dnsEntries(),
		proxyEntries(), doorEntries(), certificateEntries(), pathEntries(), conntrackEntries(), clockEntries(),
		configEntries(), serviceEntries(),
	)
}
