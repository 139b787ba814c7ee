// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	butane "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"github.com/coreos/vcontext/report"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// translateSource runs Butane on one source, with the CA bundle after the
// configuration. Every remark of Butane is an error: a warning here would be a surprise
// on a host.
func translateSource(sources fs.FS, dir, source string, bundle bool) ([]byte, error) {
	text, err := fs.ReadFile(sources, source)
	if err != nil {
		return nil, fmt.Errorf("cannot read the Butane source: %w", err)
	}
	if bundle && (source == configSource || source == fcosSource) {
		if text, err = insertBundle(source, text); err != nil {
			return nil, err
		}
	}
	out, remarks, err := butane.TranslateBytes(text, common.TranslateBytesOptions{
		TranslateOptions: common.TranslateOptions{FilesDir: dir},
	})
	problems := make([]error, 0, len(remarks.Entries))
	for _, remark := range remarks.Entries {
		problems = append(problems, remarkProblem(source, dir, remark))
	}
	if err != nil && len(problems) == 0 {
		problems = append(problems, syntaxProblem(source, err, sourceRemediation(source)))
	}
	return out, errors.Join(problems...)
}

// remarkProblem returns a remark of Butane with its position in the source. A remark
// about a generated field has only a path.
func remarkProblem(source, dir string, remark report.Entry) error {
	p := config.Problem{Where: source, Remediation: sourceRemediation(source)}
	if at := remark.Marker.StartP; at != nil {
		p.Line, p.Column = int(at.Line), int(at.Column)
	}
	p.Message = strings.ReplaceAll(remark.Message, dir+"/", "")
	if remark.Context.Len() > 0 {
		p.Message = strings.TrimPrefix(remark.Context.String(), "$.") + ": " + p.Message
	}
	return p
}

func sourceRemediation(source string) string {
	return "correct " + source + " and render again"
}
