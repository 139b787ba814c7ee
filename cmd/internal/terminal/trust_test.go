// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestTrustConditionAndRow: the condition and the row of each state.
func TestTrustConditionAndRow(t *testing.T) {
	t.Parallel()
	const bundle, system = "/etc/b.crt", "/etc/s.pem"
	out := []report.IgnoredCertificate{
		{Line: 7, Subject: "CN=Old", Serial: "a", Reason: "it has expired"},
		{Line: 9, Reason: "no base64"},
		{Line: 12, Reason: "no base64"},
	}
	for name, tt := range map[string]struct {
		trust     report.Trust
		condition string
		row       string
	}{
		"the admin's": {
			report.Trust{
				Kind: report.TrustAdmin, Path: bundle, Source: bundle, Certificates: 2,
				Since: start.Add(-3 * time.Minute),
			},
			"True Loaded", "✓ /etc/b.crt (2 CAs) is in use for 3m",
		},
		"some left out": {
			report.Trust{Kind: report.TrustAdmin, Path: bundle, Source: bundle, Certificates: 1, Ignored: out, IgnoredTotal: 3},
			"True Loaded", "! Loaded [ca-bundle-partial]: /etc/b.crt (1 CA) is in use",
		},
		"this host's": {
			report.Trust{Kind: report.TrustSystem, Path: bundle, Source: system, Certificates: 140},
			"True SystemTrust", "✓ this host's /etc/s.pem (140 CAs) is in use, because /etc/b.crt does not exist",
		},
		"rejected": {
			report.Trust{
				Kind: report.TrustLastGood, Path: bundle, Source: bundle, Certificates: 2,
				Error: "/etc/b.crt: it is empty: fill it",
			},
			"False Rejected", "✗ Rejected [ca-bundle-invalid]: /etc/b.crt: it is empty: fill it; the last good content of /etc/b.crt (2 CAs) stays in use",
		},
		"refused, and this host's before": {
			report.Trust{
				Kind: report.TrustSystem, Path: bundle, Source: system, Certificates: 140,
				Error: "/etc/b.crt: it is empty: fill it",
			},
			"False Rejected", "✗ Rejected [ca-bundle-invalid]: /etc/b.crt: it is empty: fill it; this host's /etc/s.pem (140 CAs) stays in use",
		},
		"nothing left": {
			report.Trust{
				Kind: report.TrustLastGood, Path: bundle, Source: bundle, Certificates: 2, Error: "x",
				NoUsableCertificate: true, Ignored: out, IgnoredTotal: 3,
			},
			"False NoUsableCertificate", "✗ NoUsableCertificate [ca-bundle-invalid]: x; the last good content of /etc/b.crt (2 CAs) stays in use",
		},
		"nothing at all": {
			report.Trust{Kind: report.TrustNone, Path: bundle, Error: "x"},
			"False NothingTrusted", "✗ NothingTrusted [no-trusted-ca]: x; no certificate of an ingress is trusted",
		},
		"no TLS": {report.Trust{Kind: report.TrustUnused}, "True NotRequired", "- requests to the ingress do not use TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTracker()
			b.SetTrust(tt.trust, start)
			r := b.Report(report.Table{})
			got := renderText(t, r, start, terminal.View{Wide: true})
			if !strings.Contains(got, "\nTrust:          "+tt.row+"\n") {
				t.Errorf("want the row %q in\n%s", tt.row, got)
			}
			if len(r.Conditions) != 2 || r.Conditions[0].Type != report.ConditionType ||
				r.Conditions[1].Type != report.TrustConditionType {
				t.Fatalf("%+v", r.Conditions)
			}
			if c := r.Conditions[1]; c.Status+" "+string(c.Reason) != tt.condition || c.Message == "" ||
				!c.LastTransitionTime.Equal(start) {
				t.Errorf("%+v, want %s", c, tt.condition)
			}
			if c := r.Condition(); c.Reason != report.Starting {
				t.Errorf("the service's own condition is %+v", c)
			}
			// The transition time does not change with the same state.
			b.SetTrust(tt.trust, start.Add(time.Hour))
			if c := b.Report(report.Table{}).Conditions; len(c) != 2 || !c[1].LastTransitionTime.Equal(start) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestTrustUnknown: JSON has empty lists, and the text has no row.
func TestTrustUnknown(t *testing.T) {
	t.Parallel()
	r := newTracker().Report(report.Table{})
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"trust":{"kind":"","path":"","certificates":0,"subjects":[],"ignored":[],"ignoredTotal":0}`; !strings.Contains(string(out), want) {
		t.Errorf("want %s in\n%s", want, out)
	}
	got := renderText(t, r, start, terminal.View{Wide: true})
	if strings.Contains(got, "Trust:") || len(r.Conditions) != 1 {
		t.Errorf("%+v\n%s", r.Conditions, got)
	}
}
