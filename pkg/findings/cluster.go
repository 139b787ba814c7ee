// SPDX-License-Identifier: Apache-2.0

package findings

// Findings that no check of one host detects.
const (
	NodeNotReporting ID = "node-not-reporting"
	VersionsDiffer   ID = "versions-differ"
	VIPsDiffer       ID = "vips-differ"
	VIPUnassigned    ID = "vip-unassigned"
	VIPDuplicate     ID = "vip-duplicate"
)
