// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// errNoHost is a request that no proxy can be asked for: it names no host, and the
// address in its place would be that of this front door.
var errNoHost = fmt.Errorf("%w", cause.Details{Reason: cause.NoHost})

// errBadHead is a head that is not what the gate writes: origin-form, then Host.
var errBadHead = fmt.Errorf("%w", cause.Details{Reason: cause.BadHead})

// appendAbsoluteForm appends a request head in the form for a proxy (RFC 9112 section
// 3.2.2): the target becomes http://host/…, Host the same, and what authorizes us
// is added. host is without a port; port is the ingress's. Head is what the gate
// has written: in origin-form, Host first.
func appendAbsoluteForm(dst, head []byte, host string, port uint16, authorization Secret) ([]byte, error) {
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
