// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// maxProblems bounds what is said of a file that is something else altogether.
const maxProblems = 10

func checkConfig(_ context.Context, h *host) Result {
	var problems config.Problems
	switch {
	case errors.As(h.configErr, &problems):
		return findingsResult(configFindings(problems), "")
	case errors.Is(h.configErr, fs.ErrPermission) && !h.privileged:
		return skippedResult("%v", h.configErr)
	case h.configErr != nil:
		return findingsResult([]findings.Finding{findings.New(findings.ConfigUnreadable, "error", systemMessage(h.configErr), "path", h.ConfigPath)}, "")
	case !h.config.Enabled():
		return findingsResult([]findings.Finding{findings.New(findings.Disabled, "path", h.ConfigPath)}, "")
	}
	if _, err := os.Lstat(h.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		return okResult("there is no %s: the defaults are in force", h.ConfigPath)
	}
	return okResult("%s", h.ConfigPath)
}

// configFindings gives a finding for each mistake.
func configFindings(problems config.Problems) []findings.Finding {
	var all []findings.Finding
	for i, p := range problems {
		where := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		if i == maxProblems {
			where = fmt.Sprintf("%s, and in %d places more", where, len(problems)-i-1)
		}
		all = append(all, findings.New(findings.ConfigInvalid, "problem", where, "mend", p.Fix))
		if i == maxProblems {
			break
		}
	}
	return all
}
