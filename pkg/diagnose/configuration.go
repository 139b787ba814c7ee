// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// maxProblems bounds the findings about a file that is not a configuration.
const maxProblems = 10

func checkConfig(_ context.Context, h *host) Result {
	var problems config.Problems
	switch {
	case errors.As(h.configErr, &problems):
		return findingsResult(configFindings(problems), "")
	case errors.Is(h.configErr, fs.ErrPermission) && !h.privileged:
		return skippedResult("%v", h.configErr)
	case h.configErr != nil:
		return findingsResult([]findings.Finding{findings.New(findings.ConfigUnreadable, findings.Values{"error": systemMessage(h.configErr), "path": h.ConfigPath})}, "")
	case !h.config.Enabled():
		return findingsResult([]findings.Finding{findings.New(findings.Disabled, findings.Values{"path": h.ConfigPath})}, "")
	}
	if _, err := os.Lstat(h.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		return okResult("%s does not exist, so the defaults are in use", h.ConfigPath)
	}
	return okResult("%s", h.ConfigPath)
}

// configFindings returns a finding for each problem.
func configFindings(problems config.Problems) []findings.Finding {
	var all []findings.Finding
	for i, p := range problems {
		where := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		if i == maxProblems {
			where = fmt.Sprintf("%s, and %d more", where, len(problems)-i-1)
		}
		all = append(all, findings.New(findings.ConfigInvalid, findings.Values{"problem": where, "fix": sentence(p.Fix)}))
		if i == maxProblems {
			break
		}
	}
	return all
}

// sentence is a text with a capital first letter and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
