// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
)

// TestFailover moves the VIPs by disconnecting a cable and back, and orders a certificate
// after each move. test/topology and test/cluster move them in other ways.
func TestFailover(t *testing.T) {
	l, _ := cluster(t)
	services := startAll(t, l)
	name := publishName(t, l, "failover", l.API)
	renew := func(holder int) {
		t.Helper()
		must(t, l.Settled(t.Context()))
		awaitHolder(t, l, services, holder)
		before := status(t, services[holder])
		orderCertificate(t, l, name, l.Pods[2])
		after := status(t, services[holder])
		if after.Challenges.Total == before.Challenges.Total {
			t.Errorf("the challenges did not go through master%d", holder)
		}
	}
	renew(0)
	must(t, l.Masters[0].Unplug(t.Context()))
	renew(1)
	must(t, l.Masters[0].Plug(t.Context()))
	renew(0)
}
