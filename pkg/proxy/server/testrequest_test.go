// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestTestRequests: a test request gets the response of every other path and the ID of the
// service, and is no rejection. No other request gets the ID.
func TestTestRequests(t *testing.T) {
	settings := testSettings()
	settings.Instance = 0xc0ffee00c0ffee
	f := startServer(t, settings, startIngress(t, answerAll))
	const field = "\r\n" + reqhead.InstanceField + ": 00c0ffee00c0ffee\r\n"
	for text, isTest := range map[string]bool{
		"GET " + report.TestPath + " HTTP/1.1\r\nHost: 192.0.2.5\r\nConnection: close\r\n\r\n": true,
		"GET " + report.TestPath + " HTTP/1.0\r\n\r\n":                                         true,
		"GET " + report.TestPath + "?x HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":                    false,
		"GET " + report.TestPath + "/ HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":                     false,
		"HEAD " + report.TestPath + " HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":                     false,
		"POST " + report.TestPath + " HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":                     false,
		"GET " + report.TestPath + " HTTP/1.1\r\n\r\n":                                         false,
		"GET http://192.0.2.5" + report.TestPath + " HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":      false,
		"GET / HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":                                            false,
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: 192.0.2.5\r\n\r\n":                false,
	} {
		f.rec.mu.Lock()
		f.rec.tests, f.rec.rejections, f.rec.challenges = nil, nil, nil
		f.rec.mu.Unlock()
		got := roundTrip(t, f.addr, text)
		if strings.Contains(got, field) != isTest || strings.Count(got, reqhead.InstanceField) > 1 {
			t.Errorf("%q: %q", text, got)
		}
		if !isTest {
			f.rec.await(t, 1)
			if len(f.rec.tests) != 0 {
				t.Errorf("%q is a test request", text)
			}
			continue
		}
		local := netip.MustParseAddr("127.0.0.1")
		if !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") ||
			!strings.HasSuffix(got, "\r\n\r\n"+reqhead.OnlyChallenges) {
			t.Errorf("%q: %q", text, got)
		}
		f.rec.mu.Lock()
		if len(f.rec.tests) != 1 || f.rec.tests[0] != [2]netip.Addr{local, local} || len(f.rec.rejections)+
			len(f.rec.challenges) != 0 {
			t.Errorf("%q: %v, %v, %v", text, f.rec.tests, f.rec.rejections, f.rec.challenges)
		}
		f.rec.mu.Unlock()
	}
}
