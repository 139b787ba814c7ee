// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/unit"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// checkNftables evaluates the service's report. If the service has no table, it tests
// whether the kernel supports the parts of the table.
func checkNftables(_ context.Context, h *host) Result {
	reported, reportErr := h.report()
	switch {
	case reportErr == nil && reported.Table.Present && reported.Table.Owned:
		return okResult("the service's table is in place")
	case !h.privileged:
		return skippedResult("only a process with %s can check it (run it as root)", unit.Capability)
	}
	err := nftables.CheckSupport()
	reason, message := h.serviceState()
	switch {
	case errors.Is(err, nftables.ErrUnsupported):
		_, what, _ := strings.Cut(err.Error(), ": ") // without the name of the test
		return findingsResult([]findings.Finding{findings.New(findings.NftablesUnsupported, findings.Values{"error": what})}, "")
	case err != nil:
		return skippedResult("%v", err)
	case reason != report.NftablesUnavailable:
		return okResult("the kernel supports the service's table")
	case len(h.deniedBySandbox()) > 0:
		return okResult("the kernel supports the service's table, but the unit does not permit it")
	case strings.Contains(message, unit.Capability):
		return findingsResult([]findings.Finding{findings.New(findings.NftablesPermissionDenied, findings.Values{"error": message})}, "")
	default:
		return findingsResult([]findings.Finding{findings.New(findings.NftablesRejected, findings.Values{"error": message})}, "")
	}
}
