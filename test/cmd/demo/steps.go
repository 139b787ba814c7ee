// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/steps"
)

// onlyChallenges is the answer to every request other than a challenge.
const onlyChallenges = "Only /.well-known/acme-challenge/* is allowed"

// demo has the state that the steps share.
type demo struct {
	binary   string
	lab      *lab.Lab
	services []*lab.Service
	before   map[string]string // ruleset of each control-plane node before the service
}

func (d *demo) steps() []steps.Step {
	return []steps.Step{
		{Title: "Bring the lab up", Run: d.up, Base: true},
		{Title: "Order without the service: must fail", Run: d.orderWithoutService},
		{Title: "Start the service on three control-plane nodes", Run: d.start, Base: true},
		{Title: "Certificate over IPv4", Run: d.overIPv4},
		{Title: "Certificate over IPv6 alone", Run: d.overIPv6},
		{Title: "Everything else is refused", Run: d.rejections},
		{Title: "Stop keepalived on the holder, renew", Run: d.failover},
		{Title: "Stop all, compare the rulesets", Run: d.stop},
	}
}

func (d *demo) close() error {
	if d.lab == nil {
		return nil
	}
	return d.lab.Close()
}

func (d *demo) logs() string {
	if d.lab == nil {
		return ""
	}
	return d.lab.Logs()
}

// up brings up the lab and loads the tables of other programs on every control-plane node.
func (d *demo) up(ctx context.Context) (string, error) {
	var err error
	if d.lab, err = lab.New(ctx); err != nil {
		return "", err
	}
	d.before = map[string]string{}
	for _, m := range d.lab.ControlPlane {
		if err := m.LoadNodeRules(ctx); err != nil {
			return "", err
		}
		if d.before[m.Name], err = m.Ruleset(ctx); err != nil {
			return "", err
		}
	}
	holder, err := d.lab.VIPHolder(ctx, d.lab.API.V4)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("API VIPs %s and %s on %s, ingress VIPs on the worker", d.lab.API.V4, d.lab.API.V6, holder.Name),
		nil
}

// orderWithoutService shows why the service is needed.
func (d *demo) orderWithoutService(ctx context.Context) (string, error) {
	name, err := d.publish(ctx, "api", d.lab.API)
	if err != nil {
		return "", err
	}
	_, err = d.lab.Certificate(ctx, lab.Order{Name: name})
	switch {
	case err == nil:
		return "", errors.New("the CA issued a certificate although nothing listens on the API VIP")
	case !strings.Contains(err.Error(), "connection refused"):
		return "", fmt.Errorf("the order failed for another reason: %w", err)
	default:
		return fmt.Sprintf("the CA cannot validate %s: port 80 of the API VIP: connection refused", name), nil
	}
}

func (d *demo) start(ctx context.Context) (string, error) {
	for _, m := range d.lab.ControlPlane {
		s, err := m.StartService(ctx, lab.ServiceOptions{Binary: d.binary})
		if err != nil {
			return "", err
		}
		d.services = append(d.services, s)
	}
	return d.states(ctx, 0)
}

// states waits until one control-plane node serves and the others are on standby.
func (d *demo) states(ctx context.Context, holder int) (string, error) {
	var seen []string
	for i, s := range d.services {
		want := "Standby"
		if i == holder {
			want = "Serving"
		}
		if _, err := s.AwaitReason(ctx, want); err != nil {
			return "", err
		}
		seen = append(seen, d.lab.ControlPlane[i].Name+" "+want)
	}
	return strings.Join(seen, ", "), nil
}

func (d *demo) overIPv4(ctx context.Context) (string, error) {
	return d.certificate(ctx, "api-v4", lab.Pair{V4: d.lab.API.V4}, 0)
}

func (d *demo) overIPv6(ctx context.Context) (string, error) {
	return d.certificate(ctx, "api-v6", lab.Pair{V6: d.lab.API.V6}, 0)
}

// certificate orders a certificate and verifies that its challenges went through the
// holder's service.
func (d *demo) certificate(ctx context.Context, label string, addresses lab.Pair, holder int) (string, error) {
	name, err := d.publish(ctx, label, addresses)
	if err != nil {
		return "", err
	}
	before, err := d.services[holder].Status(ctx)
	if err != nil {
		return "", err
	}
	cert, err := d.lab.Certificate(ctx, lab.Order{Name: name, SelfCheckFrom: d.lab.Pods[holder]})
	if err != nil {
		return "", err
	}
	after, err := d.services[holder].Status(ctx)
	if err != nil {
		return "", err
	}
	through := after.Challenges.Total - before.Challenges.Total
	if through == 0 {
		return "", fmt.Errorf("issued, but no challenge went through %s", d.lab.ControlPlane[holder].Name)
	}
	return fmt.Sprintf("%s, valid until %s, %d challenges through %s",
		strings.Join(cert.DNSNames, " "), cert.NotAfter.Format(time.DateOnly), through, d.lab.ControlPlane[holder].Name), nil
}

// rejections shows that only challenges are forwarded and that the service's own port refuses
// direct connections.
func (d *demo) rejections(ctx context.Context) (string, error) {
	for _, vip := range d.lab.API.Both() {
		answer, err := d.lab.Internet.Raw(ctx, netip.AddrPortFrom(vip, 80).String(),
			"GET /console HTTP/1.1\r\nHost: api."+d.lab.Domain+"\r\n\r\n")
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.HasSuffix(answer, "\r\n\r\n"+onlyChallenges) {
			return "", fmt.Errorf("GET /console on %s got %q", vip, answer)
		}
		direct := netip.AddrPortFrom(vip, 8888).String()
		conn, err := d.lab.Internet.Dial(ctx, "tcp", direct)
		if err == nil {
			_ = conn.Close()
			return "", fmt.Errorf("%s takes connections directly", direct)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return "", err
		}
	}
	return fmt.Sprintf("GET /console: 400 %q; port 8888: connection refused", onlyChallenges), nil
}

func (d *demo) failover(ctx context.Context) (string, error) {
	started := time.Now()
	if err := d.lab.ControlPlane[0].StopKeepalived(ctx); err != nil {
		return "", err
	}
	if err := d.lab.AwaitVIPs(ctx); err != nil {
		return "", err
	}
	moved := time.Since(started)
	states, err := d.states(ctx, 1)
	if err != nil {
		return "", err
	}
	renewed, err := d.certificate(ctx, "api", d.lab.API, 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("moved in %.1f s: %s; %s", moved.Seconds(), states, renewed), nil
}

// stop stops the services and compares each ruleset with the earlier one.
func (d *demo) stop(ctx context.Context) (string, error) {
	for _, s := range d.services {
		if err := s.Stop(ctx); err != nil {
			return "", err
		}
	}
	tables := 0
	for _, m := range d.lab.ControlPlane {
		after, err := m.Ruleset(ctx)
		if err != nil {
			return "", err
		}
		if after != d.before[m.Name] {
			return "", fmt.Errorf("the ruleset of %s changed\nbefore:\n%s\nafter:\n%s", m.Name, d.before[m.Name], after)
		}
		tables += strings.Count("\n"+after, "\ntable ")
	}
	return fmt.Sprintf("%d control-plane nodes, %d tables of other programs unchanged", len(d.lab.ControlPlane), tables),
		nil
}

// publish publishes the addresses of a name.
func (d *demo) publish(ctx context.Context, label string, addresses lab.Pair) (string, error) {
	name := label + "." + d.lab.Domain
	return name, d.lab.Internet.SetName(ctx, name, addresses)
}
