// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// applier applies plans: both listeners and table, or neither.
type applier struct {
	log             *slog.Logger
	table           Table
	proxy           Proxy
	drainTimeout    time.Duration // for challenges in flight when the listeners are closed
	port            uint16        // of the listener and the table; 0: no listener
	tableMayExist   bool          // the service's table may exist in the kernel
	tableApplied    bool          // by this process
	lastVerifyError string        // logged by verify
	tableDiffers    bool          // the table in the kernel differs from the applied one
	onTableRepaired func()        // called after a table that differed was replaced

	committed time.Time // when Apply last succeeded
}

func newApplier(p Dependencies) applier {
	return applier{log: p.Log, table: p.Table, proxy: p.Proxy, drainTimeout: cmp.Or(p.DrainTimeout, defaultDrainTimeout), port: p.Inherited.Port, tableMayExist: p.Inherited.Table, onTableRepaired: p.Tracker.CountTableRepair}
}

// apply applies a plan. It returns the resulting reason and message, and whether the
// whole plan was applied.
func (h *applier) apply(ctx context.Context, c config.Config, p plan) (reason report.Reason, message string, ok bool) {
	if !p.listen {
		if err := h.withdraw(ctx); err != nil {
			return report.NftablesUnavailable, err.Error(), false
		}
		return p.reason, p.message, true
	}
	h.proxy.Configure(c, p.ingress)
	return h.install(ctx, p)
}

// install opens the listener before it applies the table. A redirect to a port without a
// listener would refuse connections, and a redirect to a port of another process must
// never exist. If the new port is in use, the old one stays in use.
func (h *applier) install(ctx context.Context, p plan) (report.Reason, string, bool) {
	port := p.port
	busy := h.proxy.Open(port)
	if busy != nil {
		if port = h.port; port == 0 {
			// A table that a failed withdrawal has left must not redirect to another process.
			return report.PortInUse, errors.Join(busy, h.removeTable()).Error(), false
		}
	}
	existed := h.tableMayExist
	h.tableMayExist = true // even if Apply returns an error
	if err := h.table.Apply(p.table(port)); err != nil {
		h.closeUnreferenced(ctx, existed)
		return report.NftablesUnavailable, err.Error(), false
	}
	h.committed = time.Now()
	if h.port != port {
		h.log.Info(fmt.Sprintf("port 80 of the API VIPs is redirected to port %d", port),
			slog.String("event", "port"), slog.Int("port", int(port)))
	}
	h.port, h.tableApplied = port, true
	if h.tableDiffers {
		h.tableDiffers = false
		h.onTableRepaired()
	}
	h.proxy.CloseExcept(port)
	if busy != nil {
		return report.PortInUse, fmt.Sprintf("%v; port %d stays in use: %s", busy, port, p.message), false
	}
	return p.reason, p.message, true
}

// closeUnreferenced closes the listeners that the table does not redirect to. Without
// the table's rules, any client could connect to them.
func (h *applier) closeUnreferenced(ctx context.Context, existed bool) {
	if h.port != 0 && existed {
		h.proxy.CloseExcept(h.port)
		return
	}
	h.port = 0
	h.closeProxy(ctx)
}

// withdraw removes listeners and table. It removes the VIPs from the table first, so that
// no new connection is redirected. The table itself is removed after the challenges in
// flight have ended: the kernel translates their packets only while a chain of type nat
// exists (net/netfilter/nf_nat_core.c, nf_nat_unregister_fn).
//
// After an error the table may exist; the next call tries again.
func (h *applier) withdraw(ctx context.Context) error {
	if h.port == 0 {
		return h.removeTable()
	}
	h.tableMayExist = true
	emptied := h.table.Apply(ruleset.New(h.port, nil))
	h.closeProxy(ctx)
	h.port = 0
	if err := h.removeTable(); err != nil {
		return errors.Join(err, emptied)
	}
	return nil
}

// handOver ends the challenges in flight and keeps listeners and table for the next
// process. Without a listener it removes the table. left reports whether anything is kept.
// The table is released last, because other programs can change it from then on.
func (h *applier) handOver(ctx context.Context) (left bool, err error) {
	if h.port == 0 {
		return false, h.withdraw(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drainTimeout)
	defer cancel()
	h.proxy.HandOver(ctx)
	err = h.table.Retain()
	return err == nil, err
}

// removeTable removes the table if it may exist.
func (h *applier) removeTable() error {
	if !h.tableMayExist {
		return nil
	}
	if err := h.table.Remove(); err != nil {
		return err
	}
	h.tableMayExist = false
	return nil
}

// closeProxy closes the listeners. The challenges in flight have drainTimeout, also when
// the service ends.
func (h *applier) closeProxy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drainTimeout)
	defer cancel()
	h.proxy.Close(ctx)
}

// verify compares the table in the kernel with the applied one. The next Apply corrects
// a difference.
func (h *applier) verify() {
	if h.port == 0 || !h.tableApplied {
		return
	}
	differs, err := h.table.Verify()
	message := ""
	switch {
	case differs:
		h.tableDiffers = true
		h.log.Warn("the table in the kernel differs from the applied one; replacing it",
			slog.String("event", "table"), slog.Any("error", err))
	case err != nil:
		if message = err.Error(); message != h.lastVerifyError {
			h.log.Warn("cannot compare the table in the kernel with the applied one",
				slog.String("event", "table"), slog.Any("error", err))
		}
	}
	h.lastVerifyError = message
}
