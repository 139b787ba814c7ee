// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// apiName is the API's name, which clients find in the kubeconfig of a node.
const apiName = "api.lab.test"

// startClusterServices starts what check tests besides the service: the API's name, an API
// server on each control-plane node, and the host files that name them.
func (s *testbed) startClusterServices() {
	s.t.Helper()
	must(s.t, s.Internet.SetName(s.t.Context(), apiName, s.API))
	const day = 24 * time.Hour
	certificate, err := lab.Issue("Lab CA", 90*day, 80*day, apiName)
	must(s.t, err)
	for _, n := range s.nodes() {
		must(s.t, errors.Join(
			n.WriteHostFile("resolv.conf", fmt.Sprintf("nameserver %s\n", s.DNS()[0])),
			n.WriteHostFile("kubeconfig", "clusters:\n- cluster:\n    server: https://api-int.lab.test:6443\n")))
	}
	for _, m := range s.ControlPlane {
		// Port 9445 is the target of baremetal-runtimecfg's redirect: HAProxy, which
		// forwards to the API servers.
		for _, port := range []string{"6443", "9445"} {
			listen := func(ctx context.Context, _ string) (net.Listener, error) { return m.Listen(ctx, ":"+port) }
			a, err := lab.ServeAPI(s.t.Context(), listen, func(string, netip.Addr) *tls.Certificate { return certificate })
			must(s.t, err)
			s.t.Cleanup(func() { _ = a.Close() })
		}
	}
}

// expectFindings runs the check command on each node with the service and expects exactly
// these findings on all nodes together.
func (s *testbed) expectFindings(want ...string) {
	s.t.Helper()
	s.checked = true
	var got []string
	for _, n := range s.nodes() {
		if s.services[n.Name] == nil {
			continue
		}
		r, _, err := n.Check(s.t.Context(), shared.binary)
		must(s.t, err)
		for _, id := range r.IDs() {
			got = append(got, n.Name+" "+id)
			s.found[id] = true
		}
		if len(r.IDs()) > 0 {
			s.t.Logf("check on %s: %+v", n, r)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("findings (-want +got):\n%s", diff)
	}
}
