// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestBGP has the VIPs on every control-plane node at once, announced by FRR, and a router
// that distributes connections over these nodes (ECMP). Then kube-vip withdraws the VIPs of
// one node, FRR fails on another one, and in the end no node has the API VIPs.
func TestBGP(t *testing.T) {
	s := open(t, lab.Layout{NoVIPs: true})
	s.idle = false
	b, err := s.StartBGP(t.Context())
	must(t, err)
	s.startClusterServices()
	// The configuration that oc-http01 renders from the Infrastructure object. The other
	// nodes find kube-vip's static pods.
	s.start(s.ControlPlane[0].Node,
		lab.ServiceOptions{Config: fmt.Sprintf("vips:\n  management: BGP\n  api: [%q, %q]\n  ingress: [%q, %q]\n",
			s.API.V4, s.API.V6, s.Ingress.V4, s.Ingress.V6)})
	s.start(s.ControlPlane[1].Node, lab.ServiceOptions{})
	s.start(s.ControlPlane[2].Node, lab.ServiceOptions{})
	s.expectCondition("False", "VIPNotHeld", "no host holds ")

	must(t, b.Hold(t.Context(), s.Worker.Node, s.AllIngress()...))
	for _, m := range s.ControlPlane {
		must(t, b.Hold(t.Context(), m.Node, s.AllAPI()...))
	}
	s.expectHolders(0, 1, 2)
	s.expectDistributed(0, 1, 2)
	s.expectBGPCertificates()
	s.expectRejection()
	s.expectCondition("True", "Serving", fmt.Sprintf("%s is held and served by master0, master1 and master2", s.API.V4))
	s.expectFindings()

	// The API server of a node fails.
	must(t, b.Release(t.Context(), s.ControlPlane[0].Node, s.AllAPI()...))
	s.expectHolders(1, 2)
	s.expectStates()
	s.expectDistributed(1, 2)
	s.expectBGPCertificates()
	s.expectCondition("True", "Serving", fmt.Sprintf("%s is held and served by master1 and master2", s.API.V4))
	s.expectFindings()

	// A node loses its BGP sessions, and keeps the VIPs.
	must(t, b.KillBGP(t.Context(), s.ControlPlane[1].Node))
	s.expectHolders(1, 2)
	s.expectBGPCertificates()

	// A service fails on a node to which routers send connections.
	must(t, s.ControlPlane[2].WriteConfig("mode: \"\"\n"))
	_, err = s.services["master2"].AwaitReason(t.Context(), "Disabled")
	must(t, err)
	s.expectCondition("False", "Disabled", "master2")
	must(t, s.ControlPlane[2].WriteConfig(s.ControlPlane[2].DefaultConfig()))
	s.expectHolders(1, 2)

	for _, m := range s.ControlPlane[1:] {
		must(t, b.Release(t.Context(), m.Node, s.AllAPI()...))
	}
	s.expectHolders()
	s.expectCondition("False", "VIPNotHeld", fmt.Sprintf("no host holds %s", s.API.V4))
	// Behind the router, check cannot distinguish a VIP without a host from a stopped service.
	s.expectFindings("master0 proxy-unreachable", "master1 proxy-unreachable", "master2 proxy-unreachable")
}

// expectHolders expects that exactly these control-plane nodes hold and serve the API VIPs.
func (s *testbed) expectHolders(holders ...int) {
	s.t.Helper()
	for _, m := range s.ControlPlane {
		reason, state := "Standby", "Standby"
		if slices.Contains(holders, m.Index) {
			reason, state = "Serving", "Held"
		}
		_, err := s.services[m.Name].Await(s.t.Context(), reason+" with BGP", func(seen lab.Status) error {
			if got := seen.Condition(); got.Reason != reason {
				return fmt.Errorf("reason is %s: %s", got.Reason, got.Message)
			}
			for _, vip := range s.AllAPI() {
				i := slices.IndexFunc(seen.VIPs, func(v lab.VIP) bool { return v.Address == vip.String() })
				if i < 0 || seen.VIPs[i].State != state || seen.VIPs[i].Management != "BGP" {
					return fmt.Errorf("VIP %s is not %s with BGP: %+v", vip, state, seen.VIPs)
				}
			}
			return nil
		})
		must(s.t, err)
	}
}

// expectDistributed sends requests to each API VIP from outside until each holder's service
// answers one.
func (s *testbed) expectDistributed(holders ...int) {
	s.t.Helper()
	for _, vip := range s.AllAPI() {
		before := make(map[int]int)
		for _, i := range holders {
			before[i] = s.rejected(i)
		}
		must(s.t, lab.Eventually(s.t.Context(), fmt.Sprintf("requests to %v on all of %v", vip, holders),
			func(ctx context.Context) error {
				answer, err := s.Internet.Get(ctx, "http://"+web(vip)+"/")
				if err != nil || answer.Status != 400 {
					return errors.Join(err, fmt.Errorf("status %d", answer.Status))
				}
				for _, i := range holders {
					if s.rejected(i) == before[i] {
						return fmt.Errorf("none on master%d", i)
					}
				}
				return nil
			}))
	}
}

// rejected returns the number of requests that are not challenges on a control-plane node.
func (s *testbed) rejected(i int) int {
	s.t.Helper()
	seen, err := s.services[s.ControlPlane[i].Name].Status(s.t.Context())
	must(s.t, err)
	return seen.Challenges.Rejected["not-challenge"]
}

// expectBGPCertificates orders certificates over each family and both. The requests of the
// self check and of the CA pass some of the services.
func (s *testbed) expectBGPCertificates() {
	s.t.Helper()
	total := func() (n int) {
		for name := range s.services {
			n += s.challenges(name)
		}
		return n
	}
	for i, p := range []lab.Pair{{V4: s.API.V4}, {V6: s.API.V6}, s.API} {
		s.names++
		name := fmt.Sprintf("api-%d.%s", s.names, s.Domain)
		must(s.t, s.Internet.SetName(s.t.Context(), name, p))
		before := total()
		_, err := s.Certificate(s.t.Context(), lab.Order{Name: name, SelfCheckFrom: s.Pods[i]})
		must(s.t, err)
		if got := total() - before; got <= lab.SelfCheckPasses {
			s.t.Errorf("%d challenges for %s, not those of the self check and the CA's", got, name)
		}
	}
}

// expectCondition waits for a condition of the cluster: a node reports the time of its change
// in whole seconds, so reports of one moment can differ.
func (s *testbed) expectCondition(status, reason, message string) {
	s.t.Helper()
	dir := s.t.TempDir()
	must(s.t, lab.Eventually(s.t.Context(), "the condition of the cluster", func(ctx context.Context) error {
		reports := map[string]string{}
		for _, m := range s.ControlPlane {
			text, err := s.services[m.Name].StatusJSON(ctx)
			if err != nil {
				return err
			}
			reports[m.Name] = text
		}
		out, _, err := lab.ClusterCondition(ctx, dir, reports)
		if err != nil {
			return fmt.Errorf("run oc-http01: %w", err)
		}
		var got lab.Condition
		if err := json.Unmarshal(out, &got); err != nil {
			return fmt.Errorf("read the condition: %w: %s", err, out)
		}
		if got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) {
			return fmt.Errorf("it is %s, %s: %s; want %s, %s: %s", got.Status, got.Reason, got.Message, status, reason, message)
		}
		return nil
	}))
}
