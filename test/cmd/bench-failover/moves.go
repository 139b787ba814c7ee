// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// answer is what the solver says.
const answer = "token.thumbprint"

// moveTimeout bounds one move; a service that takes longer is broken.
const moveTimeout = 10 * time.Second

// bench moves VIPs to and from a pod's namespace, where nothing but the
// service runs: keepalived's own time is not part of what is measured.
type bench struct {
	lab     *lab.Lab
	node    *lab.Node // holds the VIPs at times and runs the service
	client  *lab.Node // its neighbour
	service *lab.Service
	vips    lab.Pair
	host    string
}

// measureMoves prints the time from the moment at which RTM_NEWADDR arrives at
// a netlink listener of the bench's own to the last byte of the first
// challenge that came to the solver's answer: through nftables, the service,
// the router and cert-manager's solver. A client tries again and again, 50 µs
// apart, from the announcement on.
func measureMoves(ctx context.Context, l *lab.Lab, binary string, count int) error {
	b := &bench{
		lab: l, node: l.Pods[0], client: l.Masters[0].Node,
		vips: lab.Pair{V4: netip.MustParseAddr("10.128.0.50"), V6: netip.MustParseAddr("fd4e:5f2a:9c01:80::50")},
		host: "moving." + l.Domain,
	}
	solver, err := l.Solve(ctx, b.host, "token", answer)
	if err != nil {
		return err
	}
	defer func() { _ = solver.Remove(context.WithoutCancel(ctx)) }()
	b.service, err = b.node.StartService(ctx, lab.ServiceOptions{Binary: binary, Config: b.config()})
	if err != nil {
		return err
	}
	if err := b.addNeighbour(ctx); err != nil {
		return err
	}
	t, err := b.moveAll(ctx, count)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b.service.Tail(20))
	}
	for _, series := range t.series(b.vips) {
		report(series.what, series.took)
	}
	return b.service.Stop(ctx)
}

func (b *bench) config() string {
	return fmt.Sprintf("vips:\n  api: [%q, %q]\n  ingress: [%q, %q]\n",
		b.vips.V4, b.vips.V6, b.lab.Ingress.V4, b.lab.Ingress.V6)
}

// addNeighbour tells the client which link address the VIPs have, so that
// address resolution, whose retries take a second, is no part of the time.
func (b *bench) addNeighbour(ctx context.Context) error {
	out, err := b.node.Run(ctx, "ip", "-o", "link", "show", "dev", "eth0")
	if err != nil {
		return err
	}
	_, rest, found := strings.Cut(out, "link/ether ")
	if !found {
		return fmt.Errorf("no link address in %q", out)
	}
	mac := strings.Fields(rest)[0]
	for _, vip := range b.vips.Both() {
		_, err := b.client.Run(ctx, "ip", "neighbour", "replace", vip.String(), "lladdr", mac, "dev", "pods", "nud", "permanent")
		if err != nil {
			return err
		}
	}
	return nil
}

// moveAll lets the VIPs come and go in turns.
func (b *bench) moveAll(ctx context.Context, count int) (all times, err error) {
	links, err := openLinks(b.node, "eth0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, links.close()) }()
	for i := range count {
		vip := b.vips.Both()[i%2]
		one, err := b.move(ctx, links, vip)
		if err != nil {
			return nil, fmt.Errorf("move %d of %s: %w", i, vip, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// move lets one VIP come, measures, and lets it go again. It returns when the
// service's set is empty, so that each move starts from nothing.
func (b *bench) move(ctx context.Context, links *links, vip netip.Addr) (timing, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	t := timing{vip: vip, asked: time.Now()}
	var err error
	if t.announced, err = links.add(ctx, vip); err != nil {
		return t, err
	}
	if t.answered, err = b.awaitAnswer(ctx, vip); err != nil {
		return t, err
	}
	if t.answeredAgain, err = b.awaitAnswer(ctx, vip); err != nil {
		return t, err
	}
	if err := links.remove(vip); err != nil {
		return t, err
	}
	_, err = b.service.Await(ctx, "the VIP gone", func(s lab.Status) error {
		if len(s.Table.Elements) > 0 {
			return fmt.Errorf("elements: %v", s.Table.Elements)
		}
		return nil
	})
	return t, err
}

// timing is when what happened in one move.
type timing struct {
	vip           netip.Addr
	asked         time.Time // just before the kernel was asked to add the address
	announced     time.Time // RTM_NEWADDR arrived here
	answered      time.Time // last byte of the first right answer
	answeredAgain time.Time // of one more request right after that
}

type times []timing

// series is one line of the report.
type series struct {
	what string
	took []time.Duration
}

func (t times) series(vips lab.Pair) []series {
	fromNews := func(one timing) time.Duration { return one.answered.Sub(one.announced) }
	of := func(vip netip.Addr) func(timing) bool { return func(one timing) bool { return one.vip == vip } }
	every := func(timing) bool { return true }
	return []series{
		{"RTM_NEWADDR to first challenge, IPv4", t.pick(of(vips.V4), fromNews)},
		{"RTM_NEWADDR to first challenge, IPv6", t.pick(of(vips.V6), fromNews)},
		{"RTM_NEWADDR to first challenge, all", t.pick(every, fromNews)},
		{"  the same from before the address was added", t.pick(every, func(one timing) time.Duration {
			return one.answered.Sub(one.asked)
		})},
		{"  for comparison: one more challenge", t.pick(every, func(one timing) time.Duration {
			return one.answeredAgain.Sub(one.answered)
		})},
	}
}

func (t times) pick(which func(timing) bool, length func(timing) time.Duration) []time.Duration {
	var out []time.Duration
	for _, one := range t {
		if which(one) {
			out = append(out, length(one))
		}
	}
	return out
}
