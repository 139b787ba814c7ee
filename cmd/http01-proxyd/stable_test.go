// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/internal/stabletest"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestStable holds what scripts and alerts depend on to docs/reference/stable.
func TestStable(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, e := range findings.All() {
		ids = append(ids, fmt.Sprintf("%s %s", e.ID, e.Level))
	}
	var codes []string
	for name, code := range map[string]int{
		"success": cli.OK, "failure": cli.Failure, "usage": cli.Usage, "unhealthy": cli.Unhealthy, "unknown": cli.Unknown,
	} {
		codes = append(codes, fmt.Sprintf("%d %s", code, name))
	}
	for name, lines := range map[string][]string{
		"findings":      ids,
		"exit-codes":    codes,
		"commands-host": stabletest.Commands(rootCommand()),
		"json-host": slices.Concat(
			stabletest.Fields("Version", reflect.TypeFor[cli.VersionDocument]()),
			stabletest.Fields("Error", reflect.TypeFor[cli.ErrorDocument]()),
			stabletest.Fields("FindingList", reflect.TypeFor[terminal.FindingList]()),
			stabletest.Fields("CheckList", reflect.TypeFor[CheckList]()),
			stabletest.Fields("Check", reflect.TypeFor[result.Document]()),
			stabletest.Fields("Trace", reflect.TypeFor[report.Trace]()),
			stabletest.Fields("Status", reflect.TypeFor[verdict.Status]()),
		),
	} {
		stabletest.Check(t, *update, "../..", name, lines)
	}
}
