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

// domainOf takes it out of the API's URL. A URL of another form tells none: the
// installer makes this one.
func domainOf(o clusterObject) apiDomain {
	at := find(o.node, strings.Split(apiServerURLPath, "."))
	if at == nil {
		return apiDomain{}
	}
	u, err := url.Parse(textOf(at))
	if err != nil {
		return apiDomain{}
	}
	name, is := strings.CutPrefix(strings.ToLower(u.Hostname()), "api.")
	if !is || !isDomain(name) {
		return apiDomain{}
	}
	return apiDomain{name, o.file}
}
