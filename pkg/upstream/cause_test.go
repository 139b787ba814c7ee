// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
)

// TestEveryCauseIsInTheCatalogue: each has an entry of its own, whose words are
// complete once they are filled in.
func TestEveryCauseIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	for cause, want := range map[Cause]catalogue.ID{
		NoUpstream: "ingress-unknown", Refused: "ingress-refused", ConnectTimeout: "ingress-timeout", Unreachable: "ingress-unreachable",
		ClosedWithoutAnswer: "ingress-closed", Reset: "ingress-reset", AnswerTimeout: "ingress-silent", MalformedAnswer: "answer-malformed",
		AnswerTruncated: "answer-truncated", AnswerTooLarge: "answer-too-large", LocalResources: "local-resources", Stopped: "exchange-stopped",
		NoRoute: "route-none", RedirectToHTTPS: "route-redirects-https", Loop: "route-loops",
	} {
		e := &Error{Cause: cause, Addr: netip.MustParseAddrPort("192.0.2.6:80"), Err: errors.New("what the system said")}
		f := e.Finding()
		if f.ID != want {
			t.Errorf("%s has the entry %s, want %s", cause, f.ID, want)
		}
		if text := f.String(); strings.ContainsAny(text, "{}\n") {
			t.Errorf("%s: %q", cause, text)
		}
	}
}

func TestDetailNamesTheOthers(t *testing.T) {
	t.Parallel()
	e := &Error{Cause: Refused, Addr: netip.MustParseAddrPort("192.0.2.6:80"), Also: []*Error{
		{Cause: ConnectTimeout, Addr: netip.MustParseAddrPort("[2001:db8::6]:80")},
	}}
	const want = "192.0.2.6:80 refuses connections: check that a router runs on the holder of the ingress VIP and that upstream.port is its HTTP port; " +
		"then [2001:db8::6]:80 did not accept the connection in time"
	if got := e.Detail(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
