// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// BalancerPort is the port of HAProxy on OpenShift's control-plane nodes, to which a rule
// of the node redirects port 6443 of the API VIP.
const BalancerPort = 9445

// startBalancer starts HAProxy on a control-plane node, which balances the API servers as
// in OpenShift (machine-config-operator, templates/master/00-master/on-prem/files/haproxy*).
func (c *Cluster) startBalancer(n *lab.ControlPlaneNode) error {
	var b strings.Builder
	b.WriteString("defaults\n mode tcp\n timeout connect 10s\n timeout client 86400s\n timeout server 86400s\n")
	b.WriteString("frontend main\n default_backend masters\n")
	for _, a := range n.Addresses.Both() {
		if a.Is4() {
			fmt.Fprintf(&b, " bind 0.0.0.0:%d\n", BalancerPort)
		} else {
			fmt.Fprintf(&b, " bind [::]:%d v6only\n", BalancerPort)
		}
	}
	// OpenShift's HAProxy needs no token, because anonymous clients may read /readyz there.
	b.WriteString("backend masters\n balance roundrobin\n option httpchk\n")
	fmt.Fprintf(&b, " http-check send meth GET uri /readyz hdr Authorization \"Bearer %s\"\n", token)
	for _, a := range c.APIServers {
		fmt.Fprintf(&b, " server %s %s weight 1 verify none check check-ssl inter 1s fall 2 rise 3\n", a.Node.Name,
			at(first(a.Node), apiPort))
	}
	path := filepath.Join(n.Dir, "api-haproxy.cfg")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write the configuration of HAProxy: %w", err)
	}
	_, err := n.Start(lab.Command{Name: "api-haproxy", Path: "haproxy", Args: []string{"-db", "-f", path}})
	return err
}
