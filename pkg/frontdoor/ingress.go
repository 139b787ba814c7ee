// SPDX-License-Identifier: Apache-2.0

package frontdoor

import (
	"io"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/gate"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// ingress is the client of package upstream as the gate knows it. Both say the same
// of a request, which the conversion of the one into the other holds.
type ingress struct{ *upstream.Client }

// Exchange implements gate.Upstream.
func (i ingress) Exchange(r *gate.Request, client io.Writer) (status int, from netip.AddrPort, err error) {
	return i.Client.Exchange((*upstream.Request)(r), client)
}
