// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// checkNftables hears the service. Where that has no table in place, it tries
// whether the kernel takes what the table is made of.
func checkNftables(_ context.Context, h *host) Result {
	said, unheard := h.service()
	switch {
	case unheard == nil && said.Table.Present && said.Table.Owned:
		return fine("the service's table is in place")
	case !h.root:
		return skipped("only a process with %s can tell: run it as root", capability)
	}
	err := nftables.Try()
	reason, message := h.state()
	switch {
	case errors.Is(err, nftables.ErrUnsupported):
		_, what, _ := strings.Cut(err.Error(), ": ") // what was tried goes without saying
		return found([]findings.Finding{findings.Find(findings.NftablesMissing, "error", what)}, "")
	case err != nil:
		return skipped("%v", err)
	case reason != report.NftablesUnavailable:
		return fine("the kernel takes all that the service's table needs")
	case len(h.kept()) > 0:
		return fine("the kernel takes all that the service's table needs; the unit keeps the service from it")
	case strings.Contains(message, capability):
		return found([]findings.Finding{findings.Find(findings.NftablesDenied, "error", message)}, "")
	default:
		return found([]findings.Finding{findings.Find(findings.NftablesRefused, "error", message)}, "")
	}
}

// capability is what nftables asks for.
const capability = "CAP_NET_ADMIN"
