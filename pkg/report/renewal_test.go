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

// TestAttemptsLeft: at each moment, at most as many attempts are left as estimated, and not many
// fewer.
func TestAttemptsLeft(t *testing.T) {
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
		for after := time.Duration(0); after < life/3; after += 20 * time.Minute {
			c := report.Certificate{Name: "api.example.com", NotBefore: begin, NotAfter: begin.Add(life)}
			left := 0
			for _, hours := range fields[1:] {
				at, err := time.ParseDuration(hours + "h")
				if err != nil {
					t.Fatal(err)
				}
				if at > after {
					left++
				} else {
					c.FailedRenewals++
				}
			}
			if got := c.AttemptsLeft(c.RenewalTime().Add(after)); got < left || got > left+2 {
				t.Fatalf("%v, %v after the renewal time: at most %d attempts, and %d are left", life, after, got, left)
			}
		}
	}
	if lifetimes != 4 {
		t.Errorf("%d lifetimes", lifetimes)
	}
	if n := (report.Certificate{NotAfter: time.Unix(0, 0)}).AttemptsLeft(time.Unix(1, 0)); n != 0 {
		t.Errorf("%d attempts after the expiry", n)
	}
}

// TestDescribeRenewal: only certificates that cert-manager may renew have attempts.
func TestDescribeRenewal(t *testing.T) {
	t.Parallel()
	begin := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	due := report.Certificate{
		Name: "api.example.com", Issuer: "R11", NotBefore: begin,
		NotAfter: begin.Add(160 * time.Hour),
	}
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
		{due, 0, "its renewal is due, with cert-manager's defaults, further attempts before the expiry: at most 7"},
		{with(func(c *report.Certificate) { c.Name = "" }), 0, ""},
		{with(func(c *report.Certificate) { c.Issuer = "kube-apiserver-lb-signer" }), 0, ""},
		{with(func(c *report.Certificate) { c.NotAfter = time.Time{} }), 0, ""},
		{
			failed(1), 30 * time.Hour,
			"failed renewal attempts: 1, with cert-manager's defaults, further attempts before the expiry: at most 5",
		},
		{
			failed(6), 32 * time.Hour,
			"failed renewal attempts: 6, with cert-manager's defaults, further attempts before the expiry: at most 1",
		},
		// After the expiry, no attempt is left before it, whatever was reported earlier.
		{failed(6), 54 * time.Hour, "failed renewal attempts: 6"},
		{with(func(c *report.Certificate) { c.MaxAttemptsLeft = new(int) }), 54 * time.Hour, ""},
		// An attempt before the renewal time: renewBefore is longer than a third.
		{
			failed(1), -time.Hour,
			"failed renewal attempts: 1, with cert-manager's defaults, further attempts before the expiry: at most 6",
		},
	} {
		now := due.RenewalTime().Add(tt.after)
		if diff := cmp.Diff(tt.want, tt.c.WithAttemptsLeft(now).DescribeRenewal(now)); diff != "" {
			t.Errorf("%+v after %v (-want +got):\n%s", tt.c, tt.after, diff)
		}
	}
}
