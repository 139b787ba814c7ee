// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
)

// TestFailover moves the VIPs by disconnecting a cable and back, and orders a certificate
// after each move. test/suites/topology and test/support/cluster move them in other
// ways.
func TestFailover(t *testing.T) {
	l, _ := cluster(t)
	services := startAll(t, l)
	name := publishName(t, l, "failover", l.API)
	renew := func(node int) {
		t.Helper()
		must(t, l.AwaitVIPs(t.Context()))
		awaitHolder(t, l, services, node)
		before := status(t, services[node])
		orderCertificate(t, l, name, l.Pods[2])
		after := status(t, services[node])
		if after.Challenges.Total == before.Challenges.Total {
			t.Errorf("the challenges did not go through master%d", node)
		}
	}
	renew(0)
	must(t, l.ControlPlane[0].Disconnect(t.Context()))
	renew(1)
	must(t, l.ControlPlane[0].Connect(t.Context()))
	renew(0)
}
