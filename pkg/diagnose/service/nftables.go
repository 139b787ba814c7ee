// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// CheckNftables evaluates the service's report. Without a table, it tests whether the kernel
// supports the parts of the table.
func (s *Service) CheckNftables() result.Result {
	reported, reportErr := s.Report()
	switch {
	case reportErr == nil && reported.Table.Present && reported.Table.Owned:
		return result.Pass("the service's table is in place")
	case !s.Privileged:
		return result.Skip("only a process with %s can check it (run it as root)", Capability)
	}
	err := nftables.CheckSupport()
	reason, message := s.State()
	switch {
	case errors.Is(err, nftables.ErrUnsupported):
		_, what, _ := strings.Cut(err.Error(), ": ") // without the name of the test
		return result.Found(findings.NftablesUnsupported, findings.Values{"error": what})
	case err != nil:
		return result.Skip("%v", err)
	case reason != report.NftablesUnavailable:
		return result.Pass("the kernel supports the service's table")
	default:
		return result.Found(findings.NftablesRejected, findings.Values{"error": message})
	}
}
