// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// commatrix has what `oc commatrix generate --format nft` prints for a control-plane node
// (openshift-kni/commatrix d057bb8, pkg/types, ToNFTables): before the installation of the
// service, and with --host-open-ports after it. The ports come from docs/stable/raw/bm.csv
// there.
const commatrix = "testdata/commatrix"

// loadNodeFirewall loads generated rules into a node until the test ends, in place of
// earlier ones. They have no entry for VRRP. It is added, because a node without it drops
// the packets of the VIP holder until it sends some itself, as a second holder.
func (c *cluster) loadNodeFirewall(n *lab.Node, when string) {
	c.t.Helper()
	rules, err := os.ReadFile(filepath.Join(commatrix, when, "communication-matrix-master.nft"))
	must(c.t, err)
	const remove = "table inet openshift_filter; delete table inet openshift_filter"
	_, err = n.Run(c.t.Context(), "nft", remove)
	must(c.t, err)
	const acceptVRRP = "\ninsert rule inet openshift_filter OPENSHIFT meta l4proto vrrp accept\n"
	_, err = n.Input(c.t.Context(), string(rules)+acceptVRRP, "nft", "-f", "-")
	must(c.t, err)
	c.onCleanup(func(ctx context.Context) error {
		_, err := n.Run(ctx, "nft", remove)
		return err
	})
}

// TestNodeFirewall loads the rules of oc commatrix into the node that holds the VIPs.
func TestNodeFirewall(t *testing.T) {
	c := healthy(t, nil)
	n := c.ControlPlane[0]
	c.awaitSources(c.Services[0], c.ControlPlane[1].Node) // check waits for its next test
	const chain, rule = "chain inet openshift_filter OPENSHIFT",
		`jump { limit rate 1/minute log prefix "firewall "; drop; } (handle `
	c.loadNodeFirewall(n.Node, "before")
	r := c.expectFindings(n.Node, []string{"packet-dropped"})
	c.expectText(r, "packet-dropped", chain, rule, "at port 8888", c.API.V4.String(), c.API.V6.String(),
		"ingress,TCP,8888,,http01-proxyd,,,master,false", "--host-open-ports after the installation")
	if lost := len(r.Texts("packet-dropped")); lost != 1 {
		t.Errorf("%d findings for one rule", lost)
	}
	c.loadNodeFirewall(n.Node, "after")
	c.expectHealthy(n.Node)
	c.requestChallenge("curl/8.5.0", "challenge-through-the-firewall", 503)

	// Another internal port:
	c.configure(n.DefaultConfig()+"mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n", "Serving")
	_, err := c.Services[0].Await(t.Context(), "the redirect to the other port", func(s lab.Status) error {
		if s.Table.Port != 9888 {
			return fmt.Errorf("port %d", s.Table.Port)
		}
		return nil
	})
	must(t, err)
	r = c.expectFindings(n.Node, []string{"packet-dropped"})
	c.expectText(r, "packet-dropped", rule, "at port 9888", "ingress,TCP,9888,,http01-proxyd,,,master,false")
}
