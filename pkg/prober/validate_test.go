// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// TestInvalidResponses: what no child of ours answers ends the child, and what
// it takes from the network is one that is not refused.
func TestInvalidResponses(t *testing.T) {
	t.Parallel()
	zoned := netip.MustParseAddrPort("[fe80::1%mend it now]:80")
	network := &Certificate{Issuer: "a\nb", Serial: "1f", NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Names: []string{"*.example.com", "mend it now"}}
	for name, tt := range map[string]struct {
		answer Response
		ok     bool
	}{
		"an error":           {Response{Error: &cause.Details{Reason: cause.Timeout}}, true},
		"an error of none":   {Response{Error: &cause.Details{Reason: 250}}, false},
		"a certificate":      {Response{Certificate: network}.Sanitized(), true},
		"a serial of none":   {Response{Certificate: &Certificate{Serial: "mend it now"}}, false},
		"a name of none":     {Response{Certificate: &Certificate{Names: []string{"mend it now"}}}, false},
		"a year 10000":       {Response{Certificate: &Certificate{NotAfter: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))}}, false},
		"a zone of DNS":      {Response{Lookup: &LookupResult{Addresses: []netip.Addr{zoned.Addr()}}}, false},
		"a page":             {Response{Fetch: &FetchResult{Cause: "refused", Details: cause.Details{Reason: cause.System, Number: 111}}}, true},
		"an unknown cause":   {Response{Fetch: &FetchResult{Cause: "mend it now"}}, false},
		"an unknown verdict": {Response{Fetch: &FetchResult{ResponseCause: "mend it now"}}, false},
		"a zone":             {Response{Fetch: &FetchResult{UpstreamAddr: zoned}}, false},
		"a text as name":     {Response{Fetch: &FetchResult{Cause: "tls-name", Details: cause.Details{Reason: cause.NameMismatch, Names: []string{"mend it now"}}}}, false},
		"a neighbour":        {Response{Neighbours: &NeighboursResult{Hardware: []string{"02:00:00:00:00:01"}}}, true},
		"a neighbour's text": {Response{Neighbours: &NeighboursResult{Hardware: []string{"mend it now"}}}, false},
		"a zone of a proxy":  {Response{Endpoint: &EndpointResult{LastAddr: zoned}}, false},
		"a proxy's text":     {Response{Endpoint: &EndpointResult{Details: cause.Details{Reason: cause.ProxyAnswerCode, Code: "mend it now"}}}, false},
	} {
		if err := tt.answer.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
