// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

func TestDNSServers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path,
		[]byte("# of a node\nsearch a.b\nnameserver 192.0.2.11\nnameserver 198.51.100.1\nnameserver ::1\nnameserver "+
			"nonsense\nnameserver 2001:db8::1\noptions edns0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Servers(path, func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.11") })
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, s := range got {
		own := ""
		if s.Local {
			own = " own"
		}
		texts = append(texts, s.Addr.String()+own)
	}
	if diff := cmp.Diff([]string{"192.0.2.11:53 own", "198.51.100.1:53", "[::1]:53 own"}, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBestViews: OpenShift's DNS on each node returns the VIPs, whatever external
// clients get. It counts only if no other server responds.
func TestBestViews(t *testing.T) {
	t.Parallel()
	own := Server{netip.MustParseAddrPort("192.0.2.11:53"), true}
	first, second := Server{netip.MustParseAddrPort("198.51.100.1:53"), false},
		Server{netip.MustParseAddrPort("198.51.100.2:53"), false}
	well, silent, fails := protocol.Record{}, protocol.Record{Failure: protocol.ServerSilent},
		protocol.Record{Failure: protocol.ServerError}
	bogus := protocol.Record{Failure: protocol.ServerBogus}
	of := func(s Server, a, aaaa protocol.Record) View {
		return View{Server: s, Name: "a", LookupResult: protocol.LookupResult{Records: [2]protocol.Record{a, aaaa}}}
	}
	for name, tt := range map[string]struct {
		views []View
		want  Server
	}{
		"the first external server": {
			[]View{of(own, well, well), of(first, well, well), of(second, well, well)},
			first,
		},
		"a complete response":             {[]View{of(first, well, silent), of(second, well, well)}, second},
		"an incomplete external response": {[]View{of(own, well, well), of(first, well, fails)}, first},
		"a lost external response":        {[]View{of(own, well, well), of(first, silent, well)}, first},
		"a failing external server":       {[]View{of(own, well, well), of(first, fails, fails)}, first},
		"a server that validates":         {[]View{of(first, well, well), of(second, bogus, fails)}, second},
		"the local one validates":         {[]View{of(own, bogus, bogus), of(first, fails, fails)}, first},
		"only the local server responds":  {[]View{of(first, silent, silent), of(own, well, well)}, own},
		"the external one was not queried": {[]View{
			{Server: first, Name: "a", Err: errors.New("no time")},
			of(own, well, well),
		}, own},
		"incomplete before failed": {[]View{of(first, fails, fails), of(second, well, fails)}, second},
	} {
		if got := bestViews(tt.views); len(got) != 1 || got[0].Server != tt.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := bestViews([]View{{Server: first, Name: "a"}, {Server: first, Name: "b"}}); len(got) != 2 {
		t.Errorf("each Name: got %+v", got)
	}
	if !(Answers{Views: []View{of(first, silent, silent)}}).unanswered() ||
		(Answers{Views: []View{of(first, silent, fails)}}).unanswered() {
		t.Error("an error counts as no response")
	}
}
