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
		return found(refused(problems), "")
	case errors.Is(h.configErr, fs.ErrPermission) && !h.root:
		return skipped("%v", h.configErr)
	case h.configErr != nil:
		return found([]findings.Finding{findings.Find(findings.ConfigUnreadable, "error", bare(h.configErr), "path", h.ConfigPath)}, "")
	case !h.config.Enabled():
		return found([]findings.Finding{findings.Find(findings.Disabled, "path", h.ConfigPath)}, "")
	}
	if _, err := os.Lstat(h.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		return fine("there is no %s: the defaults are in force", h.ConfigPath)
	}
	return fine("%s", h.ConfigPath)
}

// refused gives a finding for each mistake.
func refused(problems config.Problems) []findings.Finding {
	var all []findings.Finding
	for i, p := range problems {
		where := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		if i == maxProblems {
			where = fmt.Sprintf("%s, and in %d places more", where, len(problems)-i-1)
		}
		all = append(all, findings.Find(findings.ConfigRefused, "problem", where, "mend", p.Fix))
		if i == maxProblems {
			break
		}
	}
	return all
}
