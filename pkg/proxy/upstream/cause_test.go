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

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestEachCauseHasAFinding: the controller finds the finding of each cause. Its sentences
// are complete after their placeholders are filled.
func TestEachCauseHasAFinding(t *testing.T) {
	t.Parallel()
	for _, cause := range findings.Causes() {
		e := &Error{
			Cause: findings.ID(cause), Addr: netip.MustParseAddrPort("192.0.2.6:80"),
			EgressProxy: "proxy.example:3128", Err: errors.New("an error of the system"),
		}
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
	const want = "192.0.2.6:80 refuses connections; then [2001:db8::6]:80 did not accept the connection in time. Check " +
		"that a router runs there: on a cluster, on the holder of the ingress VIP. upstream.port and upstream.httpsPort " +
		"must be its ports."
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
