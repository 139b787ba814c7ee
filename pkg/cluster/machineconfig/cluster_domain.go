// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"net/url"
	"strings"
)

// apiServerURLPath is where an Infrastructure has the API's URL for clients outside,
// https://api.<domain>:6443.
const apiServerURLPath = "status.apiServerURL"

// apiDomain is a cluster's domain, and the file that tells it; the zero value is none.
type apiDomain struct{ name, file string }

// readDomain takes it out of the API's URL. A URL of another form tells none: the
// installer makes this one.
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
