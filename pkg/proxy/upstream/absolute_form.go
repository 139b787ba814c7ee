// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// errNoHost is a request without a host name. Its Host would be the address of this
// proxy, to which an egress proxy must not send it.
var errNoHost = fmt.Errorf("%w", cause.Details{Reason: cause.NoHost})

// errBadHead is a head without the form that pkg/proxy/reqhead writes: origin-form,
// then Host.
var errBadHead = fmt.Errorf("%w", cause.Details{Reason: cause.BadHead})

// appendAbsoluteForm appends a request head in absolute-form, the form for a proxy
// (RFC 9112 section 3.2.2). The target becomes http://host/…, Host has the same
// host, and Proxy-Authorization is added. host has no port; port is the ingress's.
// head is in origin-form, with Host first.
func appendAbsoluteForm(dst, head []byte, host string, port uint16, authorization ingress.Secret) ([]byte, error) {
	if len(host) == 0 {
		return dst, errNoHost
	}
	method, rest, _ := bytes.Cut(head, []byte{' '})
	line, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	old, rest, found := bytes.Cut(rest, []byte("\r\n"))
	if !found || len(line) == 0 || line[0] != '/' || !bytes.HasPrefix(old, []byte("Host: ")) {
		return dst, errBadHead
	}
	dst = append(append(dst, method...), " http://"...)
	dst = appendAuthority(dst, host, port)
	dst = append(append(dst, line...), "\r\nHost: "...)
	dst = append(appendAuthority(dst, host, port), "\r\n"...)
	return append(appendAuthorization(dst, authorization), rest...), nil
}

func appendAuthority(dst []byte, host string, port uint16) []byte {
	dst = append(dst, host...)
	if port == 80 {
		return dst
	}
	return strconv.AppendUint(append(dst, ':'), uint64(port), 10)
}
