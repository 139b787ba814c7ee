// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// TestAnswersThatAreRefused: what no child of ours answers ends the child, and what
// it takes from the network is one that is not refused.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	zoned := netip.MustParseAddrPort("[fe80::1%mend it now]:80")
	network := &Certificate{Issuer: "a\nb", Serial: "1f", NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Names: []string{"*.example.com", "mend it now"}}
	for name, tt := range map[string]struct {
		answer Answer
		ok     bool
	}{
		"an error":           {Answer{Error: &cause.Why{Reason: cause.Timeout}}, true},
		"an error of none":   {Answer{Error: &cause.Why{Reason: 250}}, false},
		"a certificate":      {Answer{Certificate: network}.Tamed(), true},
		"a serial of none":   {Answer{Certificate: &Certificate{Serial: "mend it now"}}, false},
		"a name of none":     {Answer{Certificate: &Certificate{Names: []string{"mend it now"}}}, false},
		"a year 10000":       {Answer{Certificate: &Certificate{NotAfter: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))}}, false},
		"a zone of DNS":      {Answer{Lookup: &Lookup{Addresses: []netip.Addr{zoned.Addr()}}}, false},
		"a page":             {Answer{Fetch: &Fetch{Cause: "refused", Why: cause.Why{Reason: cause.System, Number: 111}}}, true},
		"an unknown cause":   {Answer{Fetch: &Fetch{Cause: "mend it now"}}, false},
		"an unknown verdict": {Answer{Fetch: &Fetch{Verdict: "mend it now"}}, false},
		"a zone":             {Answer{Fetch: &Fetch{At: zoned}}, false},
		"a text as name":     {Answer{Fetch: &Fetch{Cause: "tls-name", Why: cause.Why{Reason: cause.OtherNames, Names: []string{"mend it now"}}}}, false},
		"a neighbour":        {Answer{Neighbours: &Neighbours{Hardware: []string{"02:00:00:00:00:01"}}}, true},
		"a neighbour's text": {Answer{Neighbours: &Neighbours{Hardware: []string{"mend it now"}}}, false},
		"a zone of a proxy":  {Answer{Through: &Through{Tried: zoned}}, false},
		"a proxy's text":     {Answer{Through: &Through{Why: cause.Why{Reason: cause.ProxyAnswerCode, Code: "mend it now"}}}, false},
	} {
		if err := tt.answer.Check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
