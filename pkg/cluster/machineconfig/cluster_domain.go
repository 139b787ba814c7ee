// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"net/url"
	"strings"
)

// apiServerURLPath is the field of an Infrastructure with the API's URL for external
// clients, https://api.<domain>:6443.
const apiServerURLPath = "status.apiServerURL"

// apiDomain is the domain of a cluster, and the file that contains it. The zero value
// means unknown.
type apiDomain struct{ name, file string }

// readDomain derives the domain from the URL of the API. A URL of another form than the
// installer's gives no domain.
func readDomain(o clusterObject) apiDomain {
	at := nodeAt(o.node, strings.Split(apiServerURLPath, "."))
	if at == nil {
		return apiDomain{}
	}
	u, err := url.Parse(stringValue(at))
	if err != nil {
		return apiDomain{}
	}
	name, is := strings.CutPrefix(strings.ToLower(u.Hostname()), "api.")
	if !is || !isClusterDomain(name) {
		return apiDomain{}
	}
	return apiDomain{name, o.file}
}
