// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// binary is the path of the service on a control-plane node.
const binary = "/usr/local/bin/http01-proxyd"

// AwaitVIPs waits until the API VIPs are on the first running control-plane node, which
// keepalived prefers, and the ingress VIPs on the worker.
func (c *Cluster) AwaitVIPs(ctx context.Context) error {
	on := c.On()
	if len(on) == 0 {
		return errors.New("wait for the VIPs: every control-plane node is off")
	}
	return c.AwaitVIPsOn(ctx, on[0])
}

// AwaitVIPsOn waits until the API VIPs are on one control-plane node only, and the ingress
// VIPs on the worker.
func (c *Cluster) AwaitVIPsOn(ctx context.Context, want *host.Host) error {
	var others []lab.Candidate
	for _, m := range c.On() {
		if m != want {
			others = append(others, m)
		}
	}
	return c.Lab.AwaitVIPsOn(ctx, want, others...)
}

// Status queries the service on a control-plane node.
func (c *Cluster) Status(ctx context.Context, m *host.Host) (lab.Status, error) {
	text, err := m.Run(ctx, binary, "status", "-o", "json")
	if err != nil {
		return lab.Status{}, err
	}
	return lab.ParseStatus(text)
}

// AwaitState waits until the service's condition reports a reason, such as Serving or Standby.
// For reasons that follow the VIPs it also waits until the state of every VIP matches.
func (c *Cluster) AwaitState(ctx context.Context, m *host.Host, reason string) (lab.Status, error) {
	vips := map[string]string{"Serving": "Held", "Standby": "Standby"}
	var seen lab.Status
	err := lab.Eventually(ctx, reason+" on "+m.Name, func(ctx context.Context) error {
		var err error
		if seen, err = c.Status(ctx, m); err != nil {
			return err
		}
		if seen.Condition().Reason != reason {
			return fmt.Errorf("reason is %s: %s", seen.Condition().Reason, seen.Condition().Message)
		}
		for _, vip := range c.Lab.API.Both() {
			if want := vips[reason]; want != "" && seen.VIPState(vip.String()) != want {
				return fmt.Errorf("VIP %s is %q", vip, seen.VIPState(vip.String()))
			}
		}
		return nil
	})
	return seen, err
}

// AwaitServing waits until the service serves on the VIP holder and is on standby on every
// other running control-plane node.
func (c *Cluster) AwaitServing(ctx context.Context, holder *host.Host) error {
	for _, m := range c.On() {
		reason := "Standby"
		if m == holder {
			reason = "Serving"
		}
		if _, err := c.AwaitState(ctx, m, reason); err != nil {
			return err
		}
	}
	return nil
}

// Certificate publishes a name in the lab's domain with the API VIPs and orders a
// certificate as cert-manager does, with a self check from a host of the cluster.
func (c *Cluster) Certificate(ctx context.Context, label string) (*x509.Certificate, error) {
	name := label + "." + c.Lab.Domain
	if err := c.Lab.Internet.SetName(ctx, name, c.Lab.API); err != nil {
		return nil, err
	}
	return c.Lab.Certificate(ctx, lab.Order{Name: name, SelfCheckFrom: c.Lab.Worker.Node})
}
