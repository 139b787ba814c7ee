// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"io"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// upstreamAdapter is the client of package upstream as the gate knows it. Both say the same
// of a request, which the conversion of the one into the other holds.
type upstreamAdapter struct{ *upstream.Client }

// Exchange implements gate.Upstream.
func (i upstreamAdapter) Exchange(r *server.Request, client io.Writer) (status int, from netip.AddrPort, err error) {
	return i.Client.Exchange((*upstream.Request)(r), client)
}
