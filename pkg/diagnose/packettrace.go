// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trace"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// traceInterval is the time after which a trace reports its progress and checks that this
// host still holds the VIPs. At the end, it is the time for the last replies.
const traceInterval = time.Second

// maxReported bounds the packets and replies of a trace. Each takes up to about ten steps, and
// 4 KiB of JSON.
const maxReported = 2000

// TraceOptions select the packets of Trace.
type TraceOptions struct {
	config.HostPaths

	From     netip.Addr    // only packets of this client; invalid: of all
	Duration time.Duration // of the whole trace
	Count    int           // end after so many packets, without replies
}

// Trace follows packets of clients to port 80 of the API VIPs of this host, and the replies,
// until ctx ends. It calls progress about once a second, with the VIPs and the number of
// packets. An error means that nothing could be traced.
func Trace(ctx context.Context, o TraceOptions, progress func(vips []netip.Addr, packets int)) (report.Trace, error) {
	h, err := inspectHost(ctx, Options{HostPaths: o.HostPaths})
	if err != nil {
		return report.Trace{}, err
	}
	if err := h.checkTraceable(); err != nil {
		return report.Trace{}, err
	}
	client, err := prober.Start()
	if err != nil {
		return report.Trace{}, err
	}
	defer client.Close()
	begin := time.Now()
	port := h.redirectPort()
	t, err := trace.Start(trace.Options{Held: h.VIPs.Held, Port: port, From: o.From}, client)
	if err != nil {
		return report.Trace{}, err
	}
	r := report.Trace{
		Header: report.NewHeader("Trace"), Host: h.name, Time: begin.UTC().Truncate(time.Second),
		VIPs: h.VIPs.Held, Devices: append([]report.TracedDevice{}, t.Devices()...), Packets: []report.TracedPacket{},
	}
	bounded, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	requests := 0
	for bounded.Err() == nil && r.Message == "" && requests < o.Count {
		progress(r.VIPs, requests)
		requests += collect(bounded, t, port, o.Count-requests, &r)
		switch left := address.Exclude(r.VIPs, heldNow(r.VIPs)); {
		case len(left) > 0:
			r.Message = fmt.Sprintf("the trace ended early: this host no longer holds %s: "+
				"run oc http01 trace, or this command on the host that does", result.JoinAddresses(left))
		case len(r.Packets) >= maxReported:
			r.Message = fmt.Sprintf("the trace ended early, after %d packets and replies: "+
				"select a client with --from", len(r.Packets))
		}
	}
	if r.Message == "" {
		// The reply to the last one; also after Ctrl-C.
		requests += collect(context.WithoutCancel(ctx), t, port, o.Count-requests, &r)
	}
	r.Lost = t.Lost()
	if err := t.Close(); err != nil && r.Message == "" {
		r.Message = fmt.Sprintf("the kernel removes the tables of the trace with this process: %v", err)
	}
	if requests == 0 && r.Message == "" {
		from := "outside"
		if o.From.IsValid() {
			from = o.From.String()
		}
		r.Message = fmt.Sprintf("nothing arrived from %s: no packet was sent, or XDP, tc or the network dropped it "+
			"before this host: send a request from another host during the trace", from)
	}
	r.DurationMs = result.Milliseconds(time.Since(begin))
	return r, nil
}

// collect adds packets for at most one interval, and returns how many of them are no replies: at most
// so many. After these it adds replies to their clients only.
func collect(ctx context.Context, t *trace.Trace, port uint16, most int, r *report.Trace) (requests int) {
	step, cancel := context.WithTimeout(ctx, traceInterval)
	defer cancel()
	for {
		packets, err := t.Next(step)
		if err != nil {
			r.Message = fmt.Sprintf("the trace ended early: %v", err)
		}
		if len(packets) == 0 {
			return requests
		}
		for _, p := range packets {
			if requests == most && !repliesToOne(p, r.Packets) {
				continue
			}
			if !p.Reply {
				requests++
			}
			p.Steps, p.Counters = append([]report.TraceStep{}, p.Steps...), append([]report.KernelCounter{}, p.Counters...)
			p.Fix = trace.Fix(p, port)
			r.Packets = append(r.Packets, p)
		}
	}
}

// repliesToOne reports whether a packet is a reply to a client of others.
func repliesToOne(p report.TracedPacket, others []report.TracedPacket) bool {
	return p.Reply && slices.ContainsFunc(others, func(o report.TracedPacket) bool { return o.Client == p.Client })
}

// checkTraceable returns why packets to the API VIPs cannot be traced on this host.
func (h *host) checkTraceable() error {
	const onHolder = `run "oc http01 trace", or this command on the host that holds it ("oc http01 status" shows it)`
	switch {
	case !h.privileged:
		return errors.New("a trace requires root: run sudo http01-proxyd trace")
	case !h.isApplicable():
		return fmt.Errorf("%s cannot hold an API VIP: %s", h.name, onHolder)
	case h.VIPs.Unusable():
		return fmt.Errorf("the API VIPs are unknown: %w: run http01-proxyd check --only vips", h.VIPs.Err)
	case len(h.VIPs.Held) == 0 && len(h.VIPs.Standby) == 0:
		return errors.New("http01-proxyd serves no VIP here: run http01-proxyd check --only vips")
	case len(h.VIPs.Held) == 0:
		return fmt.Errorf("%s does not hold the API VIP %s: %s", h.name, result.JoinAddresses(h.VIPs.Standby), onHolder)
	}
	return nil
}
