// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// apiName is the API's name, which clients find in the kubeconfig of a node. internalName
// is the one that the node uses.
const (
	apiName      = "api.lab.test"
	internalName = "api-int.lab.test"
)

// clusterServices has what a cluster runs beside the service: names, an API server on each
// control-plane node, and a time server.
type clusterServices struct {
	servers []*lab.APIServer
	clock   *lab.TimeServer
}

// startClusterServices starts healthy names, API servers and a time server until the test
// ends.
func (c *cluster) startClusterServices() {
	c.t.Helper()
	must(c.t, c.Internet.SetName(c.t.Context(), apiName, c.API))
	good := issue(c.t, "Lab CA", 90*24*time.Hour, 80*24*time.Hour, apiName)
	for _, m := range c.ControlPlane {
		must(c.t, c.writeHostFiles(m.Node))
		a, err := m.ServeAPI(c.t.Context(), func(string, netip.Addr) *tls.Certificate { return good })
		must(c.t, err)
		c.t.Cleanup(func() { _ = a.Close() })
		c.env.servers = append(c.env.servers, a)
	}
	var err error
	c.env.clock, err = c.Internet.ServeTime(c.t.Context())
	must(c.t, err)
	c.t.Cleanup(func() { _ = c.env.clock.Close() })
}

// writeHostFiles writes the host files that name the DNS server, the time server and the
// API.
func (c *cluster) writeHostFiles(n *lab.Node) error {
	return errors.Join(
		n.WriteHostFile("resolv.conf", fmt.Sprintf("# of the lab\nsearch lab.test\nnameserver %s\n", c.DNS()[0])),
		n.WriteHostFile("chrony.conf", fmt.Sprintf("server %s iburst\n", c.Internet.Addresses.V4)),
		n.WriteHostFile("kubeconfig", "clusters:\n- cluster:\n    server: https://"+internalName+":6443\n"))
}

// issue makes a certificate for names with the given lifetime, of which left remains.
func issue(t *testing.T, issuer string, life, left time.Duration, names ...string) *tls.Certificate {
	t.Helper()
	made, err := lab.Issue(issuer, life, left, names...)
	must(t, err)
	return made
}
