// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// TestInvalidResponses: a response that no child of this program sends is rejected.
// Sanitized texts of the network are accepted.
func TestInvalidResponses(t *testing.T) {
	t.Parallel()
	zoned := netip.MustParseAddrPort("[fe80::1%run this now]:80")
	network := Response{Certificate: &Certificate{
		Issuer: "a\nb", Serial: "1f",
		NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Names: []string{"*.example.com", "run this now"},
	}}
	network.Sanitize()
	for name, tt := range map[string]struct {
		response Response
		ok       bool
	}{
		"an error":          {Response{Error: &cause.Details{Reason: cause.Timeout}}, true},
		"an invalid error":  {Response{Error: &cause.Details{Reason: 250}}, false},
		"a certificate":     {network, true},
		"an invalid serial": {Response{Certificate: &Certificate{Serial: "run this now"}}, false},
		"an invalid name":   {Response{Certificate: &Certificate{Names: []string{"run this now"}}}, false},
		"a year 10000":      {Response{Certificate: &Certificate{NotAfter: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))}}, false},
		"a zone of DNS": {
			Response{Lookup: &LookupResult{Records: [2]Record{1: {Addresses: []netip.Addr{zoned.Addr()}}}}},
			false,
		},
		"a page": {Response{Fetch: &FetchResult{
			Cause:   "ingress-refused",
			Details: cause.Details{Reason: cause.System, Number: 111},
		}}, true},
		"an unknown cause":   {Response{Fetch: &FetchResult{Cause: "run this now"}}, false},
		"an unknown finding": {Response{Fetch: &FetchResult{ResponseCause: "run this now"}}, false},
		"a zone":             {Response{Fetch: &FetchResult{UpstreamAddr: zoned}}, false},
		"a text as name": {Response{Fetch: &FetchResult{
			Cause:   "ingress-tls-name",
			Details: cause.Details{Reason: cause.NameMismatch, Names: []string{"run this now"}},
		}}, false},
		"a zone of a proxy": {Response{Endpoint: &EndpointResult{LastAddr: zoned}}, false},
		"a proxy's text": {Response{Endpoint: &EndpointResult{Details: cause.Details{
			Reason: cause.ProxyAnswerCode,
			Code:   "run this now",
		}}}, false},
	} {
		if err := tt.response.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
