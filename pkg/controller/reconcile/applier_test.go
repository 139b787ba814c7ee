// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// fakeHost is a fake of the table in the kernel and of the proxy. It records the steps and
// can fail at any of them. It checks the rule that a table never redirects to a port
// without a listener.
type fakeHost struct {
	t          *testing.T
	mu         sync.Mutex // the loop's goroutine and the test use it
	listen     []uint16
	portInUse  uint16 // by another process
	table      *ruleset.Table
	refuses    error // returned by Apply
	steps      []string
	inFlight   chan struct{} // closed when no challenge is in flight; nil: none is
	configured config.Config
}

func (h *fakeHost) recordStep(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

func (h *fakeHost) Apply(t ruleset.Table) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses != nil {
		h.recordStep("apply fails")
		return h.refuses
	}
	if len(t.VIPs()) > 0 && !slices.Contains(h.listen, t.Port()) {
		h.t.Errorf("the table redirects to port %d, which has no listener", t.Port())
	}
	h.recordStep("apply %d %v", t.Port(), t.VIPs())
	h.table = &t
	return nil
}

func (h *fakeHost) Verify() (bool, error) { return false, nil }

func (h *fakeHost) Remove() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses != nil {
		h.recordStep("remove fails")
		return h.refuses
	}
	h.recordStep("remove")
	h.table = nil
	return nil
}

func (h *fakeHost) Configure(c config.Config, _ []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.configured = c
}

func (h *fakeHost) Open(port uint16) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if port == h.portInUse {
		return errors.New("taken")
	}
	if !slices.Contains(h.listen, port) {
		h.recordStep("listen %d", port)
		h.listen = append(h.listen, port)
	}
	return nil
}

func (h *fakeHost) CloseExcept(port uint16, _ bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listen) > 1 || h.listen[0] != port {
		h.recordStep("settle %d", port)
	}
	h.listen = []uint16{port}
}

func (h *fakeHost) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses == nil && h.table != nil && len(h.table.VIPs()) > 0 {
		h.t.Error("the listener is closed while the table still redirects to it")
	}
	if len(h.listen) > 0 {
		h.recordStep("close")
	}
	h.listen = nil
}

func (h *fakeHost) Retain() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordStep("leave")
	return h.refuses
}

func (h *fakeHost) HandOver() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordStep("suspend")
	if h.inFlight != nil {
		return h.inFlight
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// TestApplierInherits: a listener and a table of the previous process are used or removed.
func TestApplierInherits(t *testing.T) {
	t.Parallel()
	holds := func(port uint16) plan {
		return plan{Plan: decision.Plan{
			Reason: report.Serving, Message: "m", Serves: true,
			Decision: ownership.Decision{Held: addrs("192.0.2.5")},
		}, port: port}
	}
	inert := plan{Plan: decision.Plan{Reason: report.NotRequired, Message: "n"}}
	all, socket, table := Inherited{Port: 8888, Table: true}, Inherited{Port: 8888}, Inherited{Table: true}
	for name, tt := range map[string]struct {
		left  Inherited
		do    func(*fakeHost)
		plan  plan
		steps string
	}{
		"all, and goes on":     {all, nil, holds(8888), "apply 8888 [192.0.2.5]"},
		"all, on another port": {all, nil, holds(9888), "listen 9888, apply 9888 [192.0.2.5], settle 9888"},
		"all, and the new port is taken": {
			all, func(h *fakeHost) { h.portInUse = 9888 }, holds(9888),
			"apply 8888 [192.0.2.5]",
		},
		"all, and is not required": {all, nil, inert, "apply 8888 [], close, remove"},
		"all, and nftables fails": {
			all, func(h *fakeHost) { h.refuses = errors.New("no") }, holds(8888),
			"apply fails",
		},
		"a socket":                      {socket, nil, holds(8888), "apply 8888 [192.0.2.5]"},
		"a socket, and is not required": {socket, nil, inert, "apply 8888 [], close, remove"},
		// Without the table's rules, any client could connect to the port.
		"a socket, and nftables fails": {
			socket, func(h *fakeHost) { h.refuses = errors.New("no") }, holds(8888),
			"apply fails, close",
		},
		"a table":                      {table, nil, holds(8888), "listen 8888, apply 8888 [192.0.2.5]"},
		"a table, and is not required": {table, nil, inert, "remove"},
		"a table, and the port is taken": {
			table, func(h *fakeHost) { h.portInUse = 8888 }, holds(8888), "remove",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &fakeHost{t: t}
			if tt.left.Port != 0 {
				h.listen = []uint16{tt.left.Port}
			}
			if tt.do != nil {
				tt.do(h)
			}
			a := newApplier(Dependencies{Log: slog.New(slog.DiscardHandler), Table: h, Proxy: h, Inherited: tt.left})
			a.apply(config.Default(), tt.plan)
			if diff := cmp.Diff(tt.steps, strings.Join(h.steps, ", ")); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplier(t *testing.T) {
	t.Parallel()
	holds := func(port uint16, vips ...string) plan {
		return plan{Plan: decision.Plan{
			Reason: report.Serving, Message: "m", Serves: true,
			Decision: ownership.Decision{Held: addrs(vips...)},
		}, port: port}
	}
	inert := plan{Plan: decision.Plan{Reason: report.NotRequired, Message: "n"}}
	type act struct {
		do    func(*fakeHost)
		plan  plan
		want  report.Reason
		steps string
	}
	for name, acts := range map[string][]act{
		"a VIP comes and goes": {
			{nil, holds(8888), report.Serving, "listen 8888, apply 8888 []"},
			{nil, holds(8888, "192.0.2.5"), report.Serving, "apply 8888 [192.0.2.5]"},
			{nil, holds(8888), report.Serving, "apply 8888 []"},
		},
		"port change": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{nil, holds(9888, "192.0.2.5"), report.Serving, "listen 9888, apply 9888 [192.0.2.5], settle 9888"},
		},
		"new port taken, and freed later": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{func(h *fakeHost) { h.portInUse = 9888 }, holds(9888, "192.0.2.5"), report.PortInUse, "apply 8888 [192.0.2.5]"},
			{nil, holds(9888), report.PortInUse, "apply 8888 []"},
			{func(h *fakeHost) { h.portInUse = 0 }, holds(9888), report.Serving, "listen 9888, apply 9888 [], settle 9888"},
		},
		"port taken at the start": {
			{func(h *fakeHost) { h.portInUse = 8888 }, holds(8888, "192.0.2.5"), report.PortInUse, ""},
			{
				func(h *fakeHost) { h.portInUse = 0 }, holds(8888, "192.0.2.5"), report.Serving,
				"listen 8888, apply 8888 [192.0.2.5]",
			},
		},
		"no nftables at the start: no open port either": {
			{
				func(h *fakeHost) { h.refuses = errors.New("no") }, holds(8888, "192.0.2.5"), report.NftablesUnavailable,
				"listen 8888, apply fails, close",
			},
			{
				func(h *fakeHost) { h.refuses = nil }, holds(8888, "192.0.2.5"), report.Serving,
				"listen 8888, apply 8888 [192.0.2.5]",
			},
		},
		"nftables fails later: the table stays": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{func(h *fakeHost) { h.refuses = errors.New("no") }, holds(8888), report.NftablesUnavailable, "apply fails"},
			{func(h *fakeHost) { h.refuses = nil }, holds(8888), report.Serving, "apply 8888 []"},
		},
		"withdrawal lets nobody new in, drains, and removes last": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{nil, inert, report.NotRequired, "apply 8888 [], close, remove"},
			{nil, inert, report.NotRequired, ""},
		},
		"a withdrawal that fails is tried again": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{
				func(h *fakeHost) { h.refuses = errors.New("no") }, inert, report.NftablesUnavailable,
				"apply fails, close, remove fails",
			},
			{nil, inert, report.NftablesUnavailable, "remove fails"},
			{func(h *fakeHost) { h.refuses = nil }, inert, report.NotRequired, "remove"},
			{nil, inert, report.NotRequired, ""},
		},
		"after a withdrawal that failed the port is another's: the table must not lead there": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{
				func(h *fakeHost) { h.refuses = errors.New("no") }, inert, report.NftablesUnavailable,
				"apply fails, close, remove fails",
			},
			{func(h *fakeHost) { h.portInUse = 8888 }, holds(8888, "192.0.2.5"), report.PortInUse, "remove fails"},
			{func(h *fakeHost) { h.refuses = nil }, holds(8888, "192.0.2.5"), report.PortInUse, "remove"},
			{
				func(h *fakeHost) { h.portInUse = 0 }, holds(8888, "192.0.2.5"), report.Serving,
				"listen 8888, apply 8888 [192.0.2.5]",
			},
		},
		"a port change that fails: the new port does not stay open": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{
				func(h *fakeHost) { h.refuses = errors.New("no") }, holds(9888, "192.0.2.5"), report.NftablesUnavailable,
				"listen 9888, apply fails, settle 8888",
			},
			{
				func(h *fakeHost) { h.refuses = nil }, holds(9888, "192.0.2.5"), report.Serving,
				"listen 9888, apply 9888 [192.0.2.5], settle 9888",
			},
			{nil, inert, report.NotRequired, "apply 9888 [], close, remove"},
		},
		"a failed withdrawal, and then the proxy is required again": {
			{nil, holds(8888, "192.0.2.5"), report.Serving, "listen 8888, apply 8888 [192.0.2.5]"},
			{
				func(h *fakeHost) { h.refuses = errors.New("no") }, inert, report.NftablesUnavailable,
				"apply fails, close, remove fails",
			},
			{
				func(h *fakeHost) { h.refuses = nil }, holds(8888, "192.0.2.5"), report.Serving,
				"listen 8888, apply 8888 [192.0.2.5]",
			},
		},
		"nothing to withdraw: the kernel is not queried": {
			{func(h *fakeHost) { h.refuses = errors.New("no nftables here") }, inert, report.NotRequired, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &fakeHost{t: t}
			a := newApplier(Dependencies{Log: slog.New(slog.DiscardHandler), Table: h, Proxy: h})
			for i, act := range acts {
				if act.do != nil {
					act.do(h)
				}
				h.steps = nil
				reason, message, ok := a.apply(config.Default(), act.plan)
				if reason != act.want || message == "" || ok != (reason == act.plan.Reason) {
					t.Errorf("act %d: %s, %q, %v; want %s", i, reason, message, ok, act.want)
				}
				if diff := cmp.Diff(act.steps, strings.Join(h.steps, ", ")); diff != "" {
					t.Errorf("act %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}
