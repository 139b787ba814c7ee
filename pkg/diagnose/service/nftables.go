// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// dnatTable is the table of cert-manager-operator's HTTP01Proxy (pull requests 459 and 474).
const dnatTable = "crtmgr_http01_dnat"

// CheckNftables evaluates the service's report. Without a table, it tests whether the kernel
// supports the parts of the table.
func (s *Service) CheckNftables() result.Result {
	reported, reportErr := s.Report()
	switch {
	case reportErr == nil && reported.Table.Present && reported.Table.Owned:
		return s.checkOtherTable()
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

// checkOtherTable looks for the table of another program for the same task, beside the service's table.
func (s *Service) checkOtherTable() result.Result {
	in := result.Pass("the service's table is in place")
	if !s.Privileged {
		return in
	}
	switch present, err := nftables.HasTable(dnatTable); {
	case err != nil:
		return in.WithNotChecked(fmt.Sprintf("whether the table inet %s is loaded: %v", dnatTable, err))
	case present:
		return result.Found(findings.DNATTable, findings.Values{"table": dnatTable})
	default:
		return in
	}
}
