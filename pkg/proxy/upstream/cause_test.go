// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// TestEachCauseHasAFinding: the controller finds the finding of each cause. Its sentences
// are complete after their placeholders are filled.
func TestEachCauseHasAFinding(t *testing.T) {
	t.Parallel()
	for _, cause := range findings.Causes() {
		e := &Error{Cause: findings.ID(cause), Addr: netip.MustParseAddrPort("192.0.2.6:80"), EgressProxy: "proxy.example:3128", Err: errors.New("an error of the system")}
		f := e.Finding()
		if f.ID != findings.ID(cause) {
			t.Errorf("%s is %q", cause, f.ID)
		}
		if text := f.String(); strings.ContainsAny(text, "{}\n") {
			t.Errorf("%s: %q", cause, text)
		}
	}
}

func TestDetailNamesOtherAddresses(t *testing.T) {
	t.Parallel()
	e := &Error{Cause: findings.IngressRefused, Addr: netip.MustParseAddrPort("192.0.2.6:80"), Others: []*Error{
		{Cause: findings.IngressTimeout, Addr: netip.MustParseAddrPort("[2001:db8::6]:80")},
	}}
	const want = "192.0.2.6:80 refuses connections; then [2001:db8::6]:80 did not accept the connection in time. Check that a router runs there. " +
		"On a cluster it must run on the holder of the ingress VIP. Check that upstream.port and upstream.httpsPort are its HTTP and HTTPS ports."
	if got := e.Detail(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLocalResources: a lack of ports or descriptors of this host is not attributed
// to the ingress, even before a connection attempt.
func TestLocalResources(t *testing.T) {
	t.Parallel()
	for _, number := range []syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.EMFILE} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("bind", number)}
		if e := DialError(netip.MustParseAddrPort("192.0.2.6:80"), err); e.Cause != findings.LocalResources {
			t.Errorf("%v is %s", number, e.Cause)
		}
	}
}

// TestJournalOnlyFindings: no check reports these, because they concern a challenge
// that the service itself received.
func TestJournalOnlyFindings(t *testing.T) {
	t.Parallel()
	nowhere, closed := New(), New()
	t.Cleanup(nowhere.Close)
	closed.Update(Settings{Upstream: ingress.Upstream{Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: 1, ConnectTimeout: time.Second}})
	closed.Close()
	for want, client := range map[findings.ID]*Client{"ingress-no-address": nowhere, "exchange-stopped": closed} {
		r := &Request{Deadline: time.Now().Add(time.Second), VIP: netip.MustParseAddrPort("192.0.2.5:80"), Head: []byte("GET / HTTP/1.1\r\n\r\n")}
		if _, failure := client.Exchange(r, new(Relay)); failure == nil || failure.Finding().ID != want {
			t.Errorf("got %v, want %s", failure, want)
		}
	}
}
