// SPDX-License-Identifier: Apache-2.0

package expiry_test

import (
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/expiry"
)

const day = 24 * time.Hour

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		life, left time.Duration
		want       expiry.Level
	}{
		"90 days, fresh":              {90 * day, 90 * day, expiry.Good},
		"90 days, a quarter":          {90 * day, 90 * day / 4, expiry.Good},
		"90 days, less":               {90 * day, 90*day/4 - time.Second, expiry.Ageing},
		"90 days, a tenth":            {90 * day, 9 * day, expiry.Ageing},
		"90 days, less than a tenth":  {90 * day, 9*day - time.Second, expiry.Urgent},
		"90 days, the last second":    {90 * day, time.Second, expiry.Urgent},
		"90 days, over":               {90 * day, 0, expiry.Expired},
		"45 days, 12 left":            {45 * day, 12 * day, expiry.Good},
		"45 days, 11 left":            {45 * day, 11 * day, expiry.Ageing},
		"45 days, 4 left":             {45 * day, 4 * day, expiry.Urgent},
		"6 days, 2 left":              {6 * day, 2 * day, expiry.Good},
		"6 days, 30 hours left":       {6 * day, 30 * time.Hour, expiry.Ageing},
		"6 days, a day left":          {6 * day, day, expiry.Ageing},
		"6 days, less than a day":     {6 * day, day - time.Second, expiry.Urgent},
		"a day, fresh":                {day, day - time.Minute, expiry.Good},
		"a day, 7 hours left":         {day, 7 * time.Hour, expiry.Good},
		"a day, 5 hours left":         {day, 5 * time.Hour, expiry.Urgent},
		"ten years, two left":         {3650 * day, 730 * day, expiry.Ageing},
		"ends before it begins":       {-day, day, expiry.Good},
		"ends before it begins, over": {-day, -time.Second, expiry.Expired},
	} {
		after := now.Add(tt.left)
		if got := expiry.Judge(after.Add(-tt.life), after, now); got != tt.want {
			t.Errorf("%s: level %d, want %d", name, got, tt.want)
		}
	}
}
