// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"encoding/base64"
	"net/url"
	"strconv"
)

// Authorization returns the value of Proxy-Authorization for a proxy (RFC 7617), empty
// if its URL has no credentials. These are percent-decoded.
func Authorization(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// Port returns the port of a URL, or the default port of its scheme.
func Port(u *url.URL) uint16 {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(port)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}
