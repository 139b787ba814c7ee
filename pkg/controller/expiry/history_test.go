// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	vip4 = "192.0.2.5:6443"
	vip6 = "[2001:db8::5]:6443"
	api  = "api.example.com"
)

var startTime = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// presents returns an endpoint with a certificate that is valid for 90 days from a day on.
func presents(address, name, serial string, from int) report.Certificate {
	before := startTime.AddDate(0, 0, from)
	return report.Certificate{
		Address: address, Name: name, Issuer: "R11", Serial: serial, NotBefore: before,
		NotAfter: before.AddDate(0, 0, 90),
	}
}

func unanswered(address, name string) report.Certificate {
	return report.Certificate{Address: address, Name: name, Error: "connection refused"}
}

// reading is the result of one read, and its events.
type reading struct {
	day   int
	found []report.Certificate
	want  []string
}

func TestEvents(t *testing.T) {
	t.Parallel()
	type all = []report.Certificate
	expires := func(level, at, names, date, left string, attempts int) string {
		stage := map[string]string{
			"WARN": "a quarter of its lifetime", "ERROR": "a tenth of its lifetime, or less than a day,",
		}
		return fmt.Sprintf("%s The certificate that %s presents for %s (issued by \"R11\") expires on %sT00:00:00Z, in %s. "+
			"Less than %s is left; its renewal is due, with cert-manager's defaults, further attempts before the expiry: at most %d. ",
			level, at, names, date, left, stage[level], attempts)
	}
	for name, looks := range map[string][]reading{
		"renewed in time": {
			{0, all{presents(vip4, api, "a", 0)}, nil},
			{59, all{presents(vip4, api, "a", 0)}, nil},
			{
				60,
				all{presents(vip4, api, "b", 60)},
				[]string{"INFO the certificate that the API server presents on 192.0.2.5:6443 for api.example.com was renewed " +
					"and is valid until 2026-07-29 00:00 UTC (before: 2026-05-30 00:00 UTC), issued by \"R11\""},
			},
			{61, all{presents(vip4, api, "b", 60)}, nil},
		},
		"not renewed": {
			{0, all{presents(vip4, api, "a", 0)}, nil},
			{
				70,
				all{presents(vip4, api, "a", 0)},
				[]string{expires("WARN", "192.0.2.5:6443", "api.example.com", "2026-05-30", "20d", 20)},
			},
			{71, all{presents(vip4, api, "a", 0)}, nil},
			{
				82,
				all{presents(vip4, api, "a", 0)},
				[]string{expires("ERROR", "192.0.2.5:6443", "api.example.com", "2026-05-30", "8d", 11)},
			},
			{83, all{presents(vip4, api, "a", 0)}, nil},
			{
				90,
				all{presents(vip4, api, "a", 0)},
				[]string{"ERROR The certificate that 192.0.2.5:6443 presents for api.example.com (issued by \"R11\") " +
					"expired on 2026-05-30T00:00:00Z. "},
			},
			{91, all{presents(vip4, api, "a", 0)}, nil},
			{
				92,
				all{presents(vip4, api, "b", 92)},
				[]string{"INFO the certificate that the API server presents on 192.0.2.5:6443 for api.example.com was renewed " +
					"and is valid until 2026-08-30 00:00 UTC (before: 2026-05-30 00:00 UTC), issued by \"R11\""},
			},
		},
		"one certificate at many endpoints is one line": {
			{85, all{
				presents(vip4, "", "a", 0), presents(vip4, api, "a", 0), presents(vip6, "", "a", 0),
				presents(vip6, api, "a", 0),
			}, []string{
				expires("ERROR", "192.0.2.5:6443, [2001:db8::5]:6443", "clients without SNI, api.example.com",
					"2026-05-30", "5d", 9),
			}},
		},
		"a list of names is cut": {
			{85, all{
				presents(vip4, "a", "a", 0), presents(vip4, "b", "a", 0), presents(vip4, "c", "a", 0),
				presents(vip4, "d", "a", 0), presents(vip4, "e", "a", 0), presents(vip4, "f", "a", 0),
			}, []string{
				expires("ERROR", "192.0.2.5:6443", "a, b, c, d and 2 more", "2026-05-30", "5d", 9),
			}},
		},
		"one for each name": {
			{0, all{presents(vip4, "", "i", 0), presents(vip4, api, "a", -70)}, []string{
				expires("WARN", "192.0.2.5:6443", "api.example.com", "2026-03-21", "20d", 20),
			}},
		},
		"an older certificate returns": {
			{0, all{presents(vip4, api, "b", 0)}, nil},
			{
				1,
				all{presents(vip4, api, "a", -1)},
				[]string{"INFO the certificate that the API server presents on 192.0.2.5:6443 for api.example.com was replaced " +
					"by one that is valid until 2026-05-29 00:00 UTC (before: 2026-05-30 00:00 UTC), issued by \"R11\""},
			},
		},
		"an API server that is away ages all the same": {
			{0, all{presents(vip4, "", "a", 0), presents(vip4, api, "a", 0)}, nil},
			{1, all{unanswered(vip4, ""), unanswered(vip4, api)}, []string{
				"WARN the API server does not present a certificate on 192.0.2.5:6443 for clients without SNI, api.example.com; " +
					"its expiry cannot be watched: connection refused",
			}},
			{2, all{unanswered(vip4, ""), unanswered(vip4, api)}, nil},
			{
				75,
				all{unanswered(vip4, ""), unanswered(vip4, api)},
				[]string{expires("WARN", "192.0.2.5:6443", "clients without SNI, api.example.com", "2026-05-30", "15d", 17)},
			},
			{76, all{presents(vip4, "", "a", 0), presents(vip4, api, "b", 76)}, []string{
				"INFO the API server presents a certificate again on 192.0.2.5:6443 for clients without SNI, api.example.com",
				"INFO the certificate that the API server presents on 192.0.2.5:6443 for api.example.com was renewed and is " +
					"valid until 2026-08-14 00:00 UTC (before: 2026-05-30 00:00 UTC), issued by \"R11\"",
			}},
		},
		"a name without a certificate": {
			{
				0,
				all{presents(vip4, "", "a", 0), unanswered(vip4, api)},
				[]string{"WARN the API server does not present a certificate on 192.0.2.5:6443 for api.example.com; its expiry " +
					"cannot be watched: connection refused"},
			},
			{1, all{presents(vip4, "", "a", 0), unanswered(vip4, api)}, nil},
			{
				2,
				all{presents(vip4, "", "a", 0), presents(vip4, api, "a", 0)},
				[]string{"INFO the API server presents a certificate again on 192.0.2.5:6443 for api.example.com"},
			},
		},
		"a VIP that is away": {
			{
				0,
				all{presents(vip4, "", "a", 0), unanswered(vip6, "")},
				[]string{"WARN the API server does not present a certificate on [2001:db8::5]:6443 for clients without SNI; its " +
					"expiry cannot be watched: connection refused"},
			},
		},
		"no endpoints": {
			{0, nil, nil},
			{1, all{presents(vip4, "", "a", 0)}, nil},
			{2, nil, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w history
			for _, l := range looks {
				_, lines, _ := w.record(l.found, startTime.AddDate(0, 0, l.day))
				var got []string
				for i, line := range lines {
					got = append(got, line.Level.String()+" "+line.Text)
					if i < len(l.want) && strings.HasPrefix(got[i], l.want[i]) { // the remediation follows
						got[i] = l.want[i]
					}
				}
				if diff := cmp.Diff(l.want, got); diff != "" {
					t.Errorf("on day %d (-want +got):\n%s", l.day, diff)
				}
			}
		})
	}
}

// The certificate of an endpoint is kept while it does not answer, until it is not read any more.
func TestLastSeenCertificates(t *testing.T) {
	t.Parallel()
	var w history
	before := presents(vip4, api, "a", 0)
	if known, _, _ := w.record([]report.Certificate{before}, startTime); !cmp.Equal([]report.Certificate{before}, known) {
		t.Errorf("known: %+v", known)
	}
	for range 2 {
		known, _, _ := w.record([]report.Certificate{unanswered(vip4, api), unanswered(vip6, api)}, startTime)
		want := []report.Certificate{before, unanswered(vip6, api)}
		want[0].Error = "connection refused"
		if diff := cmp.Diff(want, known); diff != "" {
			t.Errorf("while it does not answer (-want +got):\n%s", diff)
		}
	}
	w.record(nil, startTime)
	if known, _, _ := w.record([]report.Certificate{unanswered(vip4, api)}, startTime); known[0].Serial != "" {
		t.Errorf("an endpoint that was not read is known: %+v", known)
	}
}
