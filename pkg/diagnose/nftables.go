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
	said, unheard := h.report()
	switch {
	case unheard == nil && said.Table.Present && said.Table.Owned:
		return okResult("the service's table is in place")
	case !h.privileged:
		return skippedResult("only a process with %s can tell: run it as root", capability)
	}
	err := nftables.CheckSupport()
	reason, message := h.serviceState()
	switch {
	case errors.Is(err, nftables.ErrUnsupported):
		_, what, _ := strings.Cut(err.Error(), ": ") // what was tried goes without saying
		return findingsResult([]findings.Finding{findings.New(findings.NftablesUnsupported, "error", what)}, "")
	case err != nil:
		return skippedResult("%v", err)
	case reason != report.NftablesUnavailable:
		return okResult("the kernel takes all that the service's table needs")
	case len(h.deniedBySandbox()) > 0:
		return okResult("the kernel takes all that the service's table needs; the unit keeps the service from it")
	case strings.Contains(message, capability):
		return findingsResult([]findings.Finding{findings.New(findings.NftablesPermissionDenied, "error", message)}, "")
	default:
		return findingsResult([]findings.Finding{findings.New(findings.NftablesRejected, "error", message)}, "")
	}
}

// capability is what nftables asks for.
const capability = "CAP_NET_ADMIN"
