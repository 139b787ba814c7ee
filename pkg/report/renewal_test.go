// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestAttemptsLeft: the schedule of cert-manager, 0, 1, 3, 7, 15 and 31 h after the renewal
// time, and every 32 h from then on.
func TestAttemptsLeft(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		life  time.Duration
		after time.Duration // since the renewal time
		first time.Duration // of the first observed failure, since the renewal time; below 0: none
		want  int
	}{
		"160 h, before the renewal":     {160 * time.Hour, -time.Second, -1, 6},
		"160 h, the first has started":  {160 * time.Hour, 0, -1, 5},
		"160 h, after an hour":          {160 * time.Hour, time.Hour, -1, 4},
		"160 h, before the last":        {160 * time.Hour, 31*time.Hour - time.Second, -1, 1},
		"160 h, after the last":         {160 * time.Hour, 31 * time.Hour, -1, 0},
		"160 h, expired":                {160 * time.Hour, 54 * time.Hour, -1, 0},
		"160 h, a later first failure":  {160 * time.Hour, 21 * time.Hour, 20 * time.Hour, 4},
		"160 h, a late first failure":   {160 * time.Hour, 52*time.Hour + time.Minute, 52 * time.Hour, 1},
		"45 days, before the renewal":   {45 * day, -time.Second, -1, 16},
		"45 days, after 31 h":           {45 * day, 31 * time.Hour, -1, 10},
		"45 days, after 62 h":           {45 * day, 62 * time.Hour, -1, 10},
		"45 days, after 63 h":           {45 * day, 63 * time.Hour, -1, 9},
		"64 days, before the renewal":   {64 * day, -time.Second, -1, 21},
		"90 days, before the renewal":   {90 * day, -time.Second, -1, 27},
		"90 days, in the last day":      {90 * day, 30*day - time.Hour, -1, 0},
		"80 years":                      {80 * 365 * day, -time.Second, -1, 7305},
		"9 h, the last one at the end":  {9 * time.Hour, 0, -1, 1},
		"ends before it begins":         {-day, 0, -1, 0},
		"renewed earlier than expected": {90 * day, -20*day + time.Hour, -20 * day, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
			c := report.Certificate{Name: "api.example.com", NotBefore: begin, NotAfter: begin.Add(tt.life)}
			if tt.first != -1 {
				c.FirstFailure = c.RenewalTime().Add(tt.first)
			}
			if got := c.AttemptsLeft(c.RenewalTime().Add(tt.after)); got != tt.want {
				t.Errorf("%d attempts, want %d", got, tt.want)
			}
		})
	}
}

// TestAttemptsMatchSchedule: at each moment, as many attempts are left as cert-manager
// makes, which test/rehearsal/backoff observes.
func TestAttemptsMatchSchedule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/schedule.txt")
	if err != nil {
		t.Fatal(err)
	}
	lifetimes := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		lifetimes++
		fields := strings.Fields(line)
		life, err := time.ParseDuration(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
		c := report.Certificate{Name: "api.example.com", NotBefore: begin, NotAfter: begin.Add(life)}
		observed := c
		observed.FirstFailure = c.RenewalTime()
		for after := -time.Hour; after < life/3; after += 20 * time.Minute {
			want := 0
			for _, hours := range fields[1:] {
				at, err := time.ParseDuration(hours + "h")
				if err != nil {
					t.Fatal(err)
				}
				if at > after {
					want++
				}
			}
			now := c.RenewalTime().Add(after)
			if got, seen := c.AttemptsLeft(now), observed.AttemptsLeft(now); got != want || seen != want {
				t.Fatalf("%v, %v after the renewal time: %d attempts, and %d from the first failure, want %d", life, after, got, seen, want)
			}
		}
	}
	if lifetimes != 4 {
		t.Errorf("%d lifetimes", lifetimes)
	}
}

// TestDescribeRenewal: only certificates that cert-manager may renew have attempts.
func TestDescribeRenewal(t *testing.T) {
	t.Parallel()
	begin := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	due := report.Certificate{Name: "api.example.com", Issuer: "R11", NotBefore: begin, NotAfter: begin.Add(160 * time.Hour)}
	with := func(change func(*report.Certificate)) report.Certificate {
		c := due
		change(&c)
		return c
	}
	failed := func(n int) report.Certificate {
		return with(func(c *report.Certificate) { c.FailedRenewals, c.FirstFailure = n, due.RenewalTime() })
	}
	for _, tt := range []struct {
		c     report.Certificate
		after time.Duration // since the renewal time
		want  string
	}{
		{due, -time.Second, ""},
		{due, 0, "its renewal is due, cert-manager makes at most 5 more attempts by itself before the expiry"},
		{with(func(c *report.Certificate) { c.Name = "" }), 0, ""},
		{with(func(c *report.Certificate) { c.Issuer = "kube-apiserver-lb-signer" }), 0, ""},
		{with(func(c *report.Certificate) { c.NotAfter = time.Time{} }), 0, ""},
		{failed(1), 30 * time.Hour, "1 renewal attempt failed, cert-manager makes at most 1 more attempt by itself before the expiry"},
		{failed(6), 32 * time.Hour, "6 renewal attempts failed, cert-manager makes no further attempt by itself before the expiry"},
		// An attempt before the renewal time: renewBefore is longer than a third.
		{failed(1), -time.Hour, "1 renewal attempt failed, cert-manager makes at most 6 more attempts by itself before the expiry"},
	} {
		if diff := cmp.Diff(tt.want, tt.c.WithAttemptsLeft(due.RenewalTime().Add(tt.after)).DescribeRenewal()); diff != "" {
			t.Errorf("%+v after %v (-want +got):\n%s", tt.c, tt.after, diff)
		}
	}
}
