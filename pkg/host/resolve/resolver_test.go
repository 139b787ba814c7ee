// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
)

// fakeDNS replaces DNS servers. Tests of package prober use real ones.
type fakeDNS map[string][]string // "server name" → addresses, or "!" and an error

func (d fakeDNS) query(_ context.Context, server netip.AddrPort, name string) ([]netip.Addr, error) {
	var found []netip.Addr
	for _, text := range d[fmt.Sprint(server.Addr(), " ", name)] {
		if message, ok := strings.CutPrefix(text, "!"); ok {
			return nil, errors.New(message)
		}
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

func TestLookup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf, hosts := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "hosts")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf, "# nameserver 192.0.2.9\nsearch a.test b.test\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver "+
		"2001:db8::1\n")
	write(hosts, "127.0.0.1 localhost # in-comment\n192.0.2.77 In-Hosts alias.\n2001:db8::77 in-hosts\n")
	r := resolve.Resolver{ConfPath: conf, HostsPath: hosts, Query: fakeDNS{
		"192.0.2.1 both.test":     {"192.0.2.50", "2001:db8::50"},
		"192.0.2.1 second.test":   {"!fails"},
		"2001:db8::1 second.test": {"2001:db8::52"},
		"192.0.2.1 short.b.test":  {"192.0.2.53"},
		"192.0.2.1 top":           {"192.0.2.54"},
		"192.0.2.1 dead.test":     {"!is silent"},
		"2001:db8::1 dead.test":   {"!fails"},
	}.query}
	for name, want := range map[string]string{
		"192.0.2.3":   "192.0.2.3",
		"2001:db8::3": "2001:db8::3",
		"IN-HOSTS":    "192.0.2.77 2001:db8::77",
		"alias":       "192.0.2.77",
		"both.test":   "192.0.2.50 2001:db8::50",
		"both.test.":  "192.0.2.50 2001:db8::50",
		"second.test": "2001:db8::52",
		"short":       "192.0.2.53",
		"top":         "192.0.2.54",
		"in-comment.test": "resolve in-comment.test: the name has no address in the DNS: correct the name, or add an A or " +
			"AAAA record",
		"dead.test": "resolve dead.test: the DNS server 192.0.2.1 is silent, the DNS server 2001:db8::1 fails",
	} {
		found, err := r.Lookup(t.Context(), name)
		var got []string
		for _, a := range found {
			got = append(got, a.String())
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	write(conf, "")
	if _, err := r.Lookup(t.Context(), "both.test"); err == nil || !strings.Contains(err.Error(), "no DNS server in") {
		t.Errorf("without a server: %v", err)
	}
	if found, err := r.Lookup(t.Context(), "in-hosts"); err != nil ||
		!slices.Contains(found, netip.MustParseAddr("192.0.2.77")) {
		t.Errorf("the hosts file needs no server: %v, %v", found, err)
	}
}

// TestSilentServer: a DNS server that never answers delays Lookup by a fixed time, and does not delay
// it after the end of the context.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver 192.0.2.1\nnameserver 192.0.2.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		timeout time.Duration // of the context
		answers string        // the server that answers
		took    time.Duration
		want    string
	}{
		"the first": {time.Minute, "192.0.2.2", 3 * time.Second, "[192.0.2.9] <nil>"},
		"both": {
			time.Minute, "", 6 * time.Second,
			"[] resolve a.test: the DNS server 192.0.2.1 does not answer, the DNS server 192.0.2.2 does not answer",
		},
		"the deadline": {
			time.Second, "192.0.2.2", time.Second,
			"[] resolve a.test: the DNS server 192.0.2.1 does not answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				query := func(ctx context.Context, server netip.AddrPort, _ string) ([]netip.Addr, error) {
					if server.Addr().String() == tt.answers && ctx.Err() == nil {
						return []netip.Addr{netip.MustParseAddr("192.0.2.9")}, nil
					}
					<-ctx.Done()
					return nil, errors.New("does not answer")
				}
				r := resolve.Resolver{ConfPath: conf, HostsPath: filepath.Join(dir, "absent"), Query: query}
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				start := time.Now()
				found, err := r.Lookup(ctx, "a.test")
				if got := fmt.Sprint(slices.Compact(found), " ", err); !strings.HasPrefix(got, tt.want) {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
