// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxReportedSubjects is how many CAs a report names.
const maxReportedSubjects = 3

// Report returns what the reads found. system is nil while there is a bundle.
func Report(bundle *Source, system *System) report.Trust {
	assessment := bundle.Assessment()
	s := report.Trust{
		Kind: report.TrustAdmin, Path: bundle.Path(), Source: bundle.Path(), IgnoredTotal: assessment.SkippedCount,
		Ignored: assessment.Skipped[:min(report.MaxIgnoredCertificates, len(assessment.Skipped))],
	}
	err := bundle.Err()
	roots, _ := EffectiveRoots(bundle, system)
	switch {
	case system != nil:
		s.Kind, s.Source = report.TrustSystem, ""
		if file := system.Source(); file != nil {
			s.Source = file.Path()
		}
		if systemErr := system.Err(); systemErr != nil {
			err = systemErr // this error is about the CAs in use
		}
	case !bundle.Loaded():
		s.Kind, s.Source = report.TrustNone, ""
	case bundle.UsesLastGood():
		s.Kind = report.TrustLastGood
	}
	if len(roots) == 0 {
		s.Kind, s.Source = report.TrustNone, ""
	}
	if err != nil {
		s.Error = printable.Line(err.Error())
		var rejection *Rejection
		s.NoUsableCertificate = errors.As(err, &rejection) && rejection.NoneTrusted
	}
	s.Certificates = len(roots)
	for _, c := range roots[:min(maxReportedSubjects, len(roots))] {
		s.Subjects = append(s.Subjects, c.Subject)
	}
	return s
}
