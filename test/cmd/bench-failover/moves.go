// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/slowsync"
)

// answer is the solver's answer.
const answer = "token.thumbprint"

// moveTimeout limits one move.
const moveTimeout = 10 * time.Second

// bench moves VIPs to and from a pod's namespace, where only the service runs. The time of
// keepalived is therefore not included.
type bench struct {
	lab     *lab.Lab
	node    *lab.Node // runs the service and holds the VIPs at times
	client  *lab.Node // neighbour of node
	service *lab.Service
	vips    lab.Pair
	host    string

	delayer *slowsync.Delayer // of each fsync; nil: none
	saved   int               // configurations
}

const (
	// fsyncDelay is the time of an fsync of a slow state directory.
	fsyncDelay = 5 * time.Second
	// movesPerSave is few enough that an fsync of fsyncDelay is pending during all moves.
	movesPerSave = 10
)

// saveConfiguration changes the configuration file and waits until the service has read it:
// the service saves each accepted configuration.
func (b *bench) saveConfiguration(ctx context.Context) error {
	b.saved++
	if err := b.node.WriteConfig(fmt.Sprintf("%s# %d\n", b.config(), b.saved)); err != nil {
		return err
	}
	select {
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settleTime is the time until a changed configuration is active, and some more.
const settleTime = 400 * time.Millisecond

// measureMoves measures the time from RTM_NEWADDR at a netlink listener of the benchmark to
// the last byte of the solver's answer. The path includes nftables, the service, the router
// and cert-manager's solver. A client tries every 50 µs after the event.
func measureMoves(ctx context.Context, l *lab.Lab, binary string, count int, slowState bool) (err error) {
	b := &bench{
		lab: l, node: l.Pods[0], client: l.ControlPlane[0].Node,
		vips: lab.Pair{V4: netip.MustParseAddr("10.128.0.50"), V6: netip.MustParseAddr("fd4e:5f2a:9c01:80::50")},
		host: "moving." + l.Domain,
	}
	options := lab.ServiceOptions{Binary: binary, Config: b.config()}
	if slowState {
		dir, err := os.MkdirTemp("", "bench-failover-")
		if err != nil {
			return fmt.Errorf("create a directory: %w", err)
		}
		defer os.RemoveAll(dir)
		if b.delayer, err = slowsync.New(dir, fsyncDelay); err != nil {
			return err
		}
		defer b.delayer.Close()
		options.Wrap = b.delayer.Command()
	}
	solver, err := l.Solve(ctx, b.host, "token", answer)
	if err != nil {
		return err
	}
	defer func() { _ = solver.Remove(context.WithoutCancel(ctx)) }()
	b.service, err = b.node.StartService(ctx, options)
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
		report(series.what, series.elapsed)
	}
	if b.delayer != nil {
		fmt.Printf("%-44s n %3d\n", "calls of fsync delayed by "+fsyncDelay.String(), b.delayer.Delayed())
	}
	return b.service.Stop(ctx)
}

func (b *bench) config() string {
	return fmt.Sprintf("vips:\n  api: [%q, %q]\n  ingress: [%q, %q]\n",
		b.vips.V4, b.vips.V6, b.lab.Ingress.V4, b.lab.Ingress.V6)
}

// addNeighbour adds a permanent neighbour entry for the VIPs on the client. Retries of
// address resolution take a second and are not part of the measurement.
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
		_, err := b.client.Run(ctx, "ip", "neighbour", "replace", vip.String(), "lladdr", mac, "dev", "pods", "nud",
			"permanent")
		if err != nil {
			return err
		}
	}
	return nil
}

// moveAll adds and removes the VIPs in turn.
func (b *bench) moveAll(ctx context.Context, count int) (all times, err error) {
	links, err := openLinks(b.node, "eth0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, links.close()) }()
	for i := range count {
		if i%movesPerSave == 0 {
			if err := b.saveConfiguration(ctx); err != nil {
				return nil, err
			}
		}
		vip := b.vips.Both()[i%2]
		one, err := b.move(ctx, links, vip)
		if err != nil {
			return nil, fmt.Errorf("move %d of %s: %w", i, vip, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// move adds one VIP, measures, and removes it. It returns when the service's set is empty,
// so that each move starts from the same state.
func (b *bench) move(ctx context.Context, links *links, vip netip.Addr) (timing, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	t := timing{vip: vip, requested: time.Now()}
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
	status, err := b.service.Await(ctx, "the VIP in the table", func(s lab.Status) error {
		if len(s.Table.Elements) == 0 {
			return errors.New("no elements")
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	t.ruleDelay = time.Duration(status.Events.LastRuleDelay * float64(time.Microsecond))
	if err := links.remove(vip); err != nil {
		return t, err
	}
	_, err = b.service.Await(ctx, "the VIP to be removed", func(s lab.Status) error {
		if len(s.Table.Elements) > 0 {
			return fmt.Errorf("elements: %v", s.Table.Elements)
		}
		return nil
	})
	return t, err
}

// timing holds the times of one move.
type timing struct {
	vip           netip.Addr
	requested     time.Time // just before the request to add the address
	announced     time.Time // RTM_NEWADDR arrived at this program
	answered      time.Time // last byte of the first correct answer
	answeredAgain time.Time // last byte of a second answer right after it
	ruleDelay     time.Duration
}

type times []timing

// series is one line of the report.
type series struct {
	what    string
	elapsed []time.Duration
}

func (t times) series(vips lab.Pair) []series {
	fromEvent := func(one timing) time.Duration { return one.answered.Sub(one.announced) }
	of := func(vip netip.Addr) func(timing) bool { return func(one timing) bool { return one.vip == vip } }
	every := func(timing) bool { return true }
	return []series{
		{
			"event to committed rule, in the controller",
			t.pick(every, func(one timing) time.Duration { return one.ruleDelay }),
		},
		{"RTM_NEWADDR to first challenge, IPv4", t.pick(of(vips.V4), fromEvent)},
		{"RTM_NEWADDR to first challenge, IPv6", t.pick(of(vips.V6), fromEvent)},
		{"RTM_NEWADDR to first challenge, all", t.pick(every, fromEvent)},
		{"  the same from before the address was added", t.pick(every, func(one timing) time.Duration {
			return one.answered.Sub(one.requested)
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
