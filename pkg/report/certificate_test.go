// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const day = 24 * time.Hour

func TestCertificateStage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		life, left time.Duration
		want       report.CertificateStage
	}{
		"90 days, fresh":              {90 * day, 90 * day, report.CertificateFresh},
		"90 days, a quarter":          {90 * day, 90 * day / 4, report.CertificateFresh},
		"90 days, less":               {90 * day, 90*day/4 - time.Second, report.CertificateRenewalLate},
		"90 days, a tenth":            {90 * day, 9 * day, report.CertificateRenewalLate},
		"90 days, less than a tenth":  {90 * day, 9*day - time.Second, report.CertificateUrgent},
		"90 days, over":               {90 * day, 0, report.CertificateExpired},
		"64 days, 15 left":            {64 * day, 15 * day, report.CertificateRenewalLate},
		"160 h, 41 left":              {160 * time.Hour, 41 * time.Hour, report.CertificateFresh},
		"160 h, 39 left":              {160 * time.Hour, 39 * time.Hour, report.CertificateRenewalLate},
		"160 h, 23 left":              {160 * time.Hour, 23 * time.Hour, report.CertificateUrgent},
		"6 days, 2 left":              {6 * day, 2 * day, report.CertificateFresh},
		"6 days, 30 hours left":       {6 * day, 30 * time.Hour, report.CertificateRenewalLate},
		"6 days, a day left":          {6 * day, day, report.CertificateRenewalLate},
		"6 days, less than a day":     {6 * day, day - time.Second, report.CertificateUrgent},
		"a day, fresh":                {day, day - time.Minute, report.CertificateFresh},
		"a day, 7 hours left":         {day, 7 * time.Hour, report.CertificateFresh},
		"a day, 5 hours left":         {day, 5 * time.Hour, report.CertificateUrgent},
		"not begun":                   {90 * day, 91 * day, report.CertificateNotYetValid},
		"ends before it begins":       {-day, day, report.CertificateNotYetValid},
		"ends before it begins, over": {-day, -2 * day, report.CertificateExpired},
	} {
		after := now.Add(tt.left)
		if got := report.CertificateStageAt(after.Add(-tt.life), after, now); got != tt.want {
			t.Errorf("%s: stage %d, want %d", name, got, tt.want)
		}
	}
}
