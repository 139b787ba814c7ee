// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

// generated has the files of `oc commatrix generate` for a control-plane node in the
// literal form of its generator (openshift-kni/commatrix d057bb8, pkg/types, ToNFTables, and
// pkg/firewall): before the installation of the service, and with --host-open-ports after
// it. The ports are those of docs/stable/raw/bm.csv there.
//
//go:embed testdata/commatrix
var generated embed.FS

// The forms of the generator.
const (
	nftForm           = "communication-matrix-master.nft" // --format nft
	machineConfigForm = "mc-master.yaml"                  // --format mc
)

// nodeFirewall returns the rules of a generated file. A MachineConfig has them in the file
// that nftables.service loads.
func nodeFirewall(t *testing.T, form, when string) string {
	t.Helper()
	text, err := generated.ReadFile("testdata/commatrix/" + when + "/" + form)
	must(t, err)
	if form == nftForm {
		return string(text)
	}
	var object struct {
		Spec struct {
			Config types.Config `json:"config"`
		} `json:"spec"`
	}
	must(t, yaml.Unmarshal(text, &object))
	for _, f := range object.Spec.Config.Storage.Files {
		if f.Path == "/etc/sysconfig/nftables.conf" {
			rules, err := mcd.Contents(f)
			must(t, err)
			return rules
		}
	}
	t.Fatalf("%s has no nftables.conf", form)
	return ""
}

// TestForms holds that both forms have the same rules. Only the MachineConfig replaces the
// rules that are loaded.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		_, rules, _ := strings.Cut(nodeFirewall(t, nftForm, when), "\n")
		want := "table inet openshift_filter\ndelete table inet openshift_filter\n" + rules
		if diff := cmp.Diff(want, strings.TrimSpace(nodeFirewall(t, machineConfigForm, when))); diff != "" {
			t.Errorf("%s (-nft +MachineConfig):\n%s", when, diff)
		}
	}
}

// loadNodeFirewall loads generated rules into a node until the test ends, in place of
// earlier ones. They have no entry for VRRP. It is added, because a node without it drops
// the packets of the VIP holder until it has sent some itself, as a second holder.
func (c *cluster) loadNodeFirewall(n *lab.Node, form, when string) {
	c.t.Helper()
	const remove = "table inet openshift_filter; delete table inet openshift_filter"
	_, err := n.Run(c.t.Context(), "nft", remove)
	must(c.t, err)
	const acceptVRRP = "\ninsert rule inet openshift_filter OPENSHIFT meta l4proto vrrp accept\n"
	_, err = n.Input(c.t.Context(), nodeFirewall(c.t, form, when)+acceptVRRP, "nft", "-f", "-")
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
	const chain, rule = "chain inet openshift_filter OPENSHIFT", `jump { limit rate 1/minute log prefix "firewall "; drop; } (handle `
	for _, form := range []string{nftForm, machineConfigForm} {
		t.Run(form, func(t *testing.T) {
			c := c.forSubtest(t)
			c.loadNodeFirewall(n.Node, form, "before")
			r := c.expectFindings(n.Node, []string{"packet-dropped"})
			c.expectText(r, "packet-dropped", chain, rule, "at port 8888", c.API.V4.String(), c.API.V6.String(),
				"ingress,TCP,8888,,http01-proxyd,,,master,false", "--host-open-ports after the installation")
			if lost := len(r.Texts("packet-dropped")); lost != 1 {
				t.Errorf("%d findings for one rule", lost)
			}
			c.loadNodeFirewall(n.Node, form, "after")
			c.expectHealthy(n.Node)
			c.requestChallenge("curl/8.5.0", "challenge-through-"+form[:2], 503)
		})
	}
	t.Run("another internal port", func(t *testing.T) {
		c := c.forSubtest(t)
		c.loadNodeFirewall(n.Node, machineConfigForm, "after")
		c.configure(n.DefaultConfig()+"mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n", "Serving")
		_, err := c.Services[0].Await(t.Context(), "the redirect to the other port", func(s lab.Status) error {
			if s.Table.Port != 9888 {
				return fmt.Errorf("port %d", s.Table.Port)
			}
			return nil
		})
		must(t, err)
		r := c.expectFindings(n.Node, []string{"packet-dropped"})
		c.expectText(r, "packet-dropped", rule, "at port 9888", "ingress,TCP,9888,,http01-proxyd,,,master,false")
	})
}
