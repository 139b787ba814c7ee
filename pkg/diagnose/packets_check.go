// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/packets"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/service"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trace"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	maxTraceTime    = 20 * time.Second
	packetsTimeout  = maxTraceTime + localTimeout
	eventDelay      = 500 * time.Millisecond // after the response until the last event of its packets
	intervalPercent = 120                    // of vips.testInterval: its jitter
	testTimeout     = 5 * time.Second        // of one test of another host, which delays the next one
)

// awaitStart waits until the checks of all nodes run.
func (c *Coordination) awaitStart(ctx context.Context, held []netip.Addr) {
	c.Started(held)
	select {
	case <-c.Trace:
	case <-ctx.Done():
	}
}

// checkPackets traces packets while this host, and the other ones, request the VIPs.
func checkPackets(ctx context.Context, o *observations) result.Result {
	switch {
	case len(o.VIPs.Held)+len(o.VIPs.Standby) == 0:
		return result.Nothing("this service would serve no API VIP")
	case !o.privileged:
		return result.Skip("only a process with %s can trace packets (run it as root)", service.Capability)
	}
	port := o.redirectPort()
	t, err := trace.Start(trace.Options{Held: o.VIPs.Held, Standby: o.VIPs.Standby, Port: port, Local: true}, o.prober)
	if err != nil {
		return result.Skip("%v", err)
	}
	found := packets.Observation{
		Held: o.VIPs.Held, Port: port, Redirecting: o.reported().Table.Present,
		Testers: o.recentSources(), Validation: o.awaitsCA() && len(o.VIPs.Held) > 0,
	}
	if o.Coordination != nil && len(o.VIPs.Held) > 0 {
		o.Coordination.Tracing()
	}
	requests := o.requestVIPs(ctx)
	found.Packets, found.Missing, err = o.collectPackets(ctx, t, requests, found.Testers)
	found.Reached = requests.reachedVIPs()
	found.Err = errors.Join(err, t.Close())
	if len(o.VIPs.Held) > 0 {
		found.Rules, found.RulesErr = trace.DescribeSourceRules(ctx, port)
	}
	r := found.Check()
	r.Addresses = o.ownAddresses()
	return r
}

// collectPackets collects packets until the packets of this host's requests and of the other
// hosts arrive.
func (o *observations) collectPackets(
	ctx context.Context, t *trace.Trace, requests *vipRequests, expected []netip.Addr,
) (all []report.TracedPacket, missing []netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTraceTime)
	defer cancel()
	if o.Coordination != nil { // it lists the hosts that take part
		expected = nil
	}
	isMissing := func(source netip.Addr) bool {
		return !slices.ContainsFunc(all, func(p report.TracedPacket) bool {
			return p.Client.Addr() == source && p.End != report.TraceUnknown
		})
	}
	end := time.Now()
	switch interval := o.config.VIPs.TestInterval * intervalPercent / 100; {
	case o.awaitsCA():
		end = end.Add(maxTraceTime)
	case len(expected) > 0:
		end = end.Add(interval + testTimeout)
	case o.reported().Table.Present && !o.VIPs.MicroShift: // otherwise there is nothing to learn
		end = end.Add(interval)
	}
	for settled := 0; ; {
		within, cancel := context.WithTimeout(ctx, eventDelay)
		found, err := t.Next(within)
		cancel()
		all = append(all, found...)
		if err != nil {
			return all, nil, err
		}
		missing = slices.DeleteFunc(slices.Clone(expected), func(source netip.Addr) bool { return !isMissing(source) })
		if isClosed(requests.ended) && o.isTraced(end, expected, missing) {
			settled++
		}
		if ctx.Err() != nil || settled > 1 || len(all) >= maxReported { // once more, for the events of the last packets
			return all, missing, nil
		}
	}
}

// vipRequests are the requests of this host to all VIPs.
type vipRequests struct {
	ended chan struct{} // closed after the last one

	mu      sync.Mutex
	reached []netip.Addr // VIPs where the service responded
}

// reachedVIPs returns the VIPs where the service responded so far.
func (r *vipRequests) reachedVIPs() []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reached)
}

// requestVIPs requests all VIPs, for at most maxTraceTime.
func (o *observations) requestVIPs(ctx context.Context) *vipRequests {
	ctx, cancel := context.WithTimeout(ctx, maxTraceTime)
	r := &vipRequests{ended: make(chan struct{})}
	var requests sync.WaitGroup
	request := func(vips []netip.Addr) {
		for _, vip := range vips {
			requests.Go(func() {
				page, err := o.fetchVIP(ctx, vip) // the trace shows what became of the others
				if err == nil && response.IsFromProxy(page) {
					r.mu.Lock()
					r.reached = append(r.reached, vip)
					r.mu.Unlock()
				}
			})
		}
	}
	request(o.VIPs.Held)
	requests.Go(func() {
		if o.Coordination != nil {
			select {
			case <-o.Coordination.Test:
			case <-ctx.Done():
				return
			}
		}
		request(o.VIPs.Standby)
	})
	go func() {
		defer cancel()
		requests.Wait()
		close(r.ended)
	}()
	return r
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitsCA reports whether the service saw no request of a CA for the challenge of --token yet.
func (o *observations) awaitsCA() bool {
	if o.Token == "" {
		return false
	}
	last := o.recentChallenges().LastWithToken(o.Token)
	return last == nil || last.ClientKind == report.CertManager
}

// redirectPort is the port to which the service redirects. A changed configuration may not be
// active yet.
func (h *host) redirectPort() uint16 { return cmp.Or(h.reported().Table.Port, h.config.InternalPort) }

// recentSources are the hosts that tested the VIPs of this host within the last minute. Anybody
// can send such requests: what comes through a gateway is not expected again.
// A host that lost its VIPs since then waits for none.
func (o *observations) recentSources() (all []netip.Addr) {
	if len(o.VIPs.Held) == 0 {
		return nil
	}
	for _, s := range o.reported().TestRequests.Sources {
		path, err := o.PathTo(s.Address)
		isNear := err != nil || !path.Gateway.IsValid()
		if isNear && time.Since(s.Last) < report.RecentTest {
			all = append(all, s.Address)
		}
	}
	return all
}

// isTraced reports whether a trace lasted long enough: on the holder until every host that
// tests it did so again, or for one interval.
func (o *observations) isTraced(end time.Time, expected, missing []netip.Addr) bool {
	switch {
	case o.Coordination != nil && len(o.VIPs.Held) > 0 && o.Token == "":
		return isClosed(o.Coordination.End)
	case len(o.VIPs.Held) == 0, len(expected) > 0 && len(missing) == 0 && o.Token == "":
		return true
	default:
		return time.Now().After(end)
	}
}
